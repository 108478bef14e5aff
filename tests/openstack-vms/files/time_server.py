"""Tells the time of this machine by NTP, as a site's time server does.

time_server.py ADDRESS
"""

import socket
import struct
import sys
import time

# Seconds between 1900, where NTP begins, and 1970.
EPOCH = 2208988800
# No leap second, version 4, an answer; the first stratum.
ANSWER, STRATUM = 0b00_100_100, 1
# The clock is good to a microsecond (2 to the power of -20 s).
POLL, PRECISION = 4, -20


def stamp(seconds):
    whole = int(seconds)
    return whole + EPOCH, int((seconds - whole) * 2**32)


with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.bind((sys.argv[1], 123))
    while True:
        request, client = server.recvfrom(512)
        received = time.time()
        if len(request) < 48:
            continue
        head = struct.pack("!BBbbII4s", ANSWER, STRATUM, POLL, PRECISION, 0, 0, b"LOCL")
        # When the clock was set, when the client asked, when that came, when the answer goes.
        times = struct.pack("!II", *stamp(received)) + request[40:48]
        times += struct.pack("!II", *stamp(received)) + struct.pack("!II", *stamp(time.time()))
        server.sendto(head + times, client)
