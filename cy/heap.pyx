"""The C heap of a process that lives for long.

glibc takes a large block from the kernel and returns it as soon as it is freed. But from then on, blocks of up to that
size (at most 32 MB) come from the heap of their thread, which keeps them. A broker that has decompressed one large
batch on each of its threads would hold that memory for good.
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
    """Returns blocks of ``size`` bytes or more to the kernel when they are freed, from now on. Returns False if this is
    impossible: only glibc has the setting.
    """
    return bool(pyb_return_blocks(size))
