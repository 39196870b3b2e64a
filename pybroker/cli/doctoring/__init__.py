"""What ``pybroker doctor`` looks at: ``machine``, ``settings``, ``network``, ``cluster``; each tells ``Finding``s."""
