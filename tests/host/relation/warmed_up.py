"""Imported by a server from which programs are forked, so that these begin at once."""

from tests.host.relation.kills import warm_up

warm_up()
