"""The broken engines, by the part of the specification that they break: each replaces one or two methods."""
