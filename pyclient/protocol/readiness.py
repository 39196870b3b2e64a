"""Waits for a socket on a loop, without the threads that uvloop starts for its own socket calls."""

from __future__ import annotations

import asyncio
import socket


async def readable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    """Waits until the socket is readable, or has ended."""
    turn: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sock.fileno(), _settle, turn)
    try:
        await turn
    finally:
        loop.remove_reader(sock.fileno())


async def writable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    """Waits until the socket is writable, or has ended."""
    turn: asyncio.Future[None] = loop.create_future()
    loop.add_writer(sock.fileno(), _settle, turn)
    try:
        await turn
    finally:
        loop.remove_writer(sock.fileno())


def _settle(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
