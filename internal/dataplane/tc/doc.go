package tc
