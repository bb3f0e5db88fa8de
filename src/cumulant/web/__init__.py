"""The web page: `theatre` plays episodes with all there is to show, `schemas` types the API, `server` serves both."""
