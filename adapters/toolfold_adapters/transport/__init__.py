"""How messages travel, and the programs at both ends.

lines, broken                               messages over standard streams, and what is none
http_client, http_headers, http_refusals    what carries messages over HTTP, goes with them, and refuses them
bridge                                      standard streams in front of a URL
processes                                   processes and their children
signals, starting                           signals and standard streams of a program that serves, and what it loads
redaction, decoded                          words that are not ours, without secrets, in whatever encoding
"""
