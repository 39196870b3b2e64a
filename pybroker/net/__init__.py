"""Sockets, frames, limits and the order of replies. What a request means is decided elsewhere: in
``handlers``.
"""
