#!/usr/bin/env python3
"""Forwards TCP connections: each line of its file has an address on which to listen and one to which to forward."""
import asyncio
import sys


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


def forward_to(target):
    async def forward(reader, writer):
        try:
            upstream = await asyncio.open_connection(*address(target))
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, upstream[1]), copy(upstream[0], writer))

    return forward


async def main():
    with open(sys.argv[1], encoding="utf-8") as routes:
        pairs = [line.split() for line in routes if line.strip()]
    servers = [await asyncio.start_server(forward_to(to), *address(listen)) for listen, to in pairs]
    await asyncio.gather(*(server.serve_forever() for server in servers))


asyncio.run(main())
