"""How messages travel, and the programs at both ends.

lines, broken                               messages over standard streams, and what is none
http_client, http_headers, http_refusals    what carries messages over HTTP, goes with them, and refuses them
http_large                                  messages over HTTP that are read in a thread
bridge                                      standard streams in front of a URL
processes                                   processes and their children
signals, starting, garbage                  what a program that serves takes, loads and frees
redaction, decoded                          words that are not ours, without secrets, in whatever encoding
"""
