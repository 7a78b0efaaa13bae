"""Prime Intellect: the HTTP client, the forms of its API, and the provider."""
