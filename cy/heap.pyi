def return_blocks(size: int) -> bool:
    """Returns blocks of ``size`` bytes or more to the kernel when they are freed, from now on. Returns False if this is
    impossible: only glibc has the setting.
    """
