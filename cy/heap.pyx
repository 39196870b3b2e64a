"""The C heap of a process that lives for long.

glibc takes a large block from the kernel and gives it back at once when it is freed, but learns from that. From then
on, blocks up to the largest that was ever freed (32 MB) come from the heap of their thread, which keeps them. A broker
that has unpacked one large batch on each of its threads would hold that memory for good.
"""

cdef extern from *:
    """
    #if defined(__GLIBC__)
    #include <malloc.h>
    static int pyb_return_blocks(int size) {
        return mallopt(M_MMAP_THRESHOLD, size) && mallopt(M_TRIM_THRESHOLD, 2 * size);
    }
    #else
    static int pyb_return_blocks(int size) { (void)size; return 0; }
    #endif
    """
    int pyb_return_blocks(int size) nogil


def return_blocks(int size):
    """From now on a block of ``size`` bytes or more goes back to the kernel when it is freed. Returns whether this is
    so: only glibc lets one choose.
    """
    return bool(pyb_return_blocks(size))
