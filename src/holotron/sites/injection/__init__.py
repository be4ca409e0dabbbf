"""Attacks on agents: pages of the web apps that tell whoever reads them to do something else.

    attacks.py       which attacks there are: a family, a task on the way of which the attack lies, a carrier, an aim
    aims.py, changes.py  what an attacker wants, when he has it (read off state alone), and what one does who obeys
    carriers.py      how the instruction comes onto the screen: markup on pages (`carriers.html`), rows in the database
    episode.py       an app under attack, and the other site that waits for what is brought to it
    environment.py   the `Environment`: with which guards it is played, and what they stopped
    naive.py         a policy that obeys whatever it sees; the other end of the scale is the apps' own solver

Everything follows from the attack's name and the seed. Nothing leaves the loopback interface: the other site is served
by the same server as the app.
"""
