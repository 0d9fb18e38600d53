/*
Package pipe passes what is in a pipe on to other pipes without copying it: the kernel hands
over the pages it lies in, to several as well (splice(2) and tee(2)).

	from ---Fill---> Tank ---Pour---> to         a tank is a pipe of ours
	                   '---Share---> Tank ---Pour---> to

What is handed over are the pages of who wrote it: should he have lent them to the pipe (vmsplice(2)) and write to them again before they
are read, the new contents are what is read.

Only Linux does so. Elsewhere New fails with errors.ErrUnsupported.
*/
package pipe

// DefaultSize is how many bytes a pipe holds unless it is said otherwise.
const DefaultSize = 64 << 10
