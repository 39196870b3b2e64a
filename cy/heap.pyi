def return_blocks(size: int) -> bool:
    """From now on a block of ``size`` bytes or more goes back to the kernel when it is freed. Returns whether this is
    so: only glibc lets one choose.
    """
