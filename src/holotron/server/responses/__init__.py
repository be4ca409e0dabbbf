"""POST /v1/responses: OpenAI's Responses API on sessions. See docs/responses.md."""
