"""OpenAI-compatible HTTP over the engine, with sessions. `holotron serve` runs it; docs/server.md is its manual."""
