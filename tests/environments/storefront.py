"""A small server with WebShop's routes and pages, over HTTP, on a catalogue of this library's.

It is written from WebShop's routes and templates, with everything that only looks left out; a
real WebShop server needs data and a search engine that cannot be had here.
"""

import json
import re
from ast import literal_eval
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, quote, unquote

from retrograde.environments.shop.goal import Fit
from retrograde.environments.shop.pages import PER_PAGE


def form(action, label, kind="btn btn-primary"):
    return (
        f'<form method="post" action="{escape(action)}">'
        f'<button type="submit" class="{kind}">{escape(label)}</button></form>'
    )


def page(instruction, body):
    return (
        "<!DOCTYPE html><html><head><title>WebShop</title><style>h4 {}</style></head><body>"
        f'<div id="instruction-text"><h4>Instruction: {escape(instruction)}</h4></div>{body}'
        "<script>var unseen = 1;</script></body></html>"
    )


class Storefront(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    catalogue, goals = None, ()

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.answer({})

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.answer(parse_qs(self.rfile.read(length).decode()))

    def answer(self, sent):
        parts = [unquote(part) for part in self.path.strip("/").split("/")]
        routes = {
            "search_results": self.results,
            "item_page": self.item,
            "item_sub_page": self.sub_page,
            "done": self.done,
        }
        route, own = (routes[parts[0]], parts[1:]) if parts[0] in routes else (self.index, parts)
        number = int(own[0].rsplit("_", 1)[-1])
        if number >= len(self.goals):
            self.send(500, "Internal Server Error")
            return
        html = route(sent, self.goals[number], *own)
        if html is not None:
            self.send(200, page(self.goals[number].instruction, html))

    def send(self, status, text, **headers):
        body = text.encode()
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def index(self, sent, goal, session):
        if "search_query" in sent:
            words = quote(str(sent["search_query"][0].lower().split(" ")))
            self.send(302, "", Location=f"/search_results/{session}/{words}/1")
            return None
        return (
            f'<h2>WebShop</h2><form role="form" method="post" action="/{session}">'
            '<input id="search_input" type="text" name="search_query" required/>'
            '<button class="btn btn-success" type="submit"><i class="icon"></i>Search</button>'
            "</form>"
        )

    def found(self, keywords):
        return self.catalogue.found(" ".join(literal_eval(keywords)))

    def results(self, sent, goal, session, keywords, number):
        found, number, here = self.found(keywords), int(number), f"/search_results/{session}"
        html = f"<h1>Results</h1><p>Page {number} of {len(found)} total results</p>"
        html += form(f"/{session}", "Back to Search", "btn btn-success")
        if number > 1:
            html += form(f"{here}/{quote(keywords)}/{number - 1}", "< Prev")
        if number * PER_PAGE < len(found):
            html += form(f"{here}/{quote(keywords)}/{number + 1}", "Next >")
        html += "<!-- <a class='product-link' href='/'>B0UNSEEN</a> -->"
        for product in found[(number - 1) * PER_PAGE : number * PER_PAGE]:
            link = f"/item_page/{session}/{product.asin}/{quote(keywords)}/{number}/{quote('{}')}"
            html += (
                f'<img src="x.png"><h4><a class="product-link" href="{link}">{product.asin}</a>'
                f"</h4><h4>{product.title}</h5><h5>${product.price}</h6>"  # nested as badly there
            )
        return html

    def item(self, sent, goal, *parts):
        session, asin, keywords, number, options = parts
        product, chosen = self.catalogue.by_asin[asin], literal_eval(options)
        rest = f"{session}/{asin}/{quote(keywords)}/{number}"
        html = form(f"/{session}", "Back to Search", "btn btn-success")
        html += form(f"/search_results/{session}/{quote(keywords)}/{number}", "< Prev")
        for name, values in product.options.items():
            html += f"<h4>{name}</h4>"
            for i, value in enumerate(values):
                url = f"/item_page/{rest}/{quote(str(chosen | {name: value}))}"
                html += (
                    f'<input type="radio" id="radio_{name}{i}" name="{name}" value="{value}" '
                    f'data-url="{url}"><label for="radio_{name}{i}">{value}</label>'
                )
        html += f"<h2>{product.title}</h2><h4>Price: ${product.price}</h4>"
        for sub in ("Description", "Features", "Reviews"):
            html += form(f"/item_sub_page/{rest}/{sub}/{quote(options)}", sub)
        return html + form(f"/done/{session}/{asin}/{quote(options)}", "Buy Now", "btn btn-lg")

    def sub_page(self, sent, goal, *parts):
        session, asin, keywords, number, _, options = parts
        product, rest = self.catalogue.by_asin[asin], f"{quote(keywords)}/{number}"
        html = form(f"/{session}", "Back to Search", "btn btn-success")
        html += form(f"/item_page/{session}/{asin}/{rest}/{quote(options)}", "< Prev")
        return f'{html}<p class="product-info">{product.description}</p>'

    def done(self, sent, goal, session, asin, options):
        chosen = literal_eval(options)
        reward = Fit.of(goal, self.catalogue.by_asin[asin], chosen).reward
        return (
            "<h1>Thank you for shopping with us!</h1><p><pre>code</pre></p>"
            f'<div style="display:none"><h4 id="options">options<pre>{json.dumps(chosen)}</pre>'
            f'</h4></div><h3 id="reward">Your score (min 0.0, max 1.0)<pre>{reward}</pre></h3>'
        )


@contextmanager
def serving(catalogue, goals):
    """The address of a running server."""
    kind = type("Serving", (Storefront,), {"catalogue": catalogue, "goals": goals})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def session_of(url):
    """The session's name in an address."""
    return re.search(r"[0-9a-f]{32}_fixed_\d+", url)[0]
