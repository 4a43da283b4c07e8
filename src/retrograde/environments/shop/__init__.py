"""A web shop on a made-up catalogue, and the way to a WebShop server."""
