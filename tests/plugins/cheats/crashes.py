"""Plugins that their process does not survive."""

import os

import torch
from cheat_base import Cheat


class Hangs(Cheat):
    def positions(self, tokens, at):
        while True:
            pass


class Hoards(Cheat):
    def positions(self, tokens, at):
        hoard = []
        while True:
            hoard.append(torch.ones(2**24))


class Dies(Cheat):
    def positions(self, tokens, at):
        os.abort()
