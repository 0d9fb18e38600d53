/*
Package fence lets the ranks of a job meet and exchange what they have put. A fence is named
by its members (ID): PMI-1 and PMI-2 know those of a whole group only, PMIx those of any ranks.

	rank     rank        Local (helper)          Hub (mpiexec)        Local (other helper)
	  | Enter --------------> |                      |                       |
	  |        | Enter -----> |  Fence(id, blob)     |                       |
	  |        |              | -------------------> | Join                  |
	  |        |              |                      | <---- Fence(id, blob) |
	  |        |              | <------------------- | --------------------> |
	  |        |              |  blobs of all nodes  |   the same bytes      |
	  | <------ release       | Open, show           |                       |
	  |        | <-- release  |                      |                       |

It is joined once on each node, where the last rank sets off the exchange, packed once, in
mpiexec, and opened once on each node. What travels is opaque here.

Every node gets the same blobs in the same order, its own among them. Leaving its own out
would save a node 1/N of the bytes (one of 1000 times 6 kB at 1,000 nodes of 64 ranks), but
then each node's answer is another one; as it is, mpiexec encodes and packs the answer once
and sends the same bytes 1,000 times, and a key put on two nodes has the same winner
everywhere. The hub holds each blob once, however many nodes there are. A fence to which
nobody brought anything is answered with no blobs at all.
*/
package fence
