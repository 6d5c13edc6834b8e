"""``twistd -ny examples/board/board.tac``: the web page on port 8080, sensors on 1883 (MQTT) and 7222 (Inbus)."""

import os

from twisted.application.service import Application
from twisted.internet import reactor

from examples.board.board import Program

SETTINGS = {
    "mqtt": os.environ.get("BOARD_MQTT", "tcp:1883:interface=127.0.0.1"),
    "inbus": os.environ.get("BOARD_INBUS", "udp:7222:interface=127.0.0.1"),
    "journal": os.environ.get("BOARD_JOURNAL", "board-journal"),
}

application = Application("board")
Program(SETTINGS, os.environ.get("BOARD_WEB", "tcp:8080:interface=127.0.0.1"), reactor).setServiceParent(application)
