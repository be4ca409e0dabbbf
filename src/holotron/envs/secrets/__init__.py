"""Passwords and the like that an agent may use and must not see.

    Secret("password", value, hosts=("shop.example",))

The policy writes `<secret:password>`; the environment types the value, into a field of the right kind, in a frame of
those hosts. The value is blanked in screenshots and stands as its placeholder in addresses, titles, notes and errors,
so that it is in no prompt, no record and no training data; what would take it to another site is held and asked
about.

`declared` is what the user says, `keeping` what a session knows, `finding` how a value is recognised in text and
`leaving` in what is sent, `typing` how it gets into a field, `screen` and its neighbours how it is kept off pictures.
"""

from holotron.envs.secrets.declared import Secret, parse_secret
from holotron.envs.secrets.keeping import Secrets

__all__ = ["Secret", "Secrets", "parse_secret"]
