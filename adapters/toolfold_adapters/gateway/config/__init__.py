"""What a gateway is told: its configuration, those of clients, and what was approved (SPEC GWY-2, GWY-9, GWY-11).

settings.py  a configuration, as values        clients.py   the words of clients, in ours
read.py      a file, and again when it changes hosts.py     the table of clients: where their files are, and how written
data.py      JSON, TOML, YAML and variables    approval.py  definitions that were approved
"""
