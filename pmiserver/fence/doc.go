/*
Package fence synchronizes the ranks of a job and exchanges the keys that they have put. An ID
names a fence by its members. In PMI-1 and PMI-2 the members are always a whole group, in PMIx any
ranks.

	rank     rank        Local (helper)       Coordinator (mpiexec)  Local (other helper)
	  | Enter --------------> |                      |                       |
	  |        | Enter -----> |  Fence(id, blob)     |                       |
	  |        |              | -------------------> | Join                  |
	  |        |              |                      | <---- Fence(id, blob) |
	  |        |              | <------------------- | --------------------> |
	  |        |              |  blobs of all nodes  |   the same bytes      |
	  | <------ release       | Decode, show         |                       |
	  |        | <-- release  |                      |                       |

Who calls whom, from a rank's request to its reply:

	a PMI barrier     pmiserver.rankSession.Fence   \
	a PMIx fence      pmix.collective.enterFence     > Local.Enter; the last local rank starts a goroutine:
	                                                /
	helper    Local.exchangeBlobs --> Exchanger.Exchange = rpc.Fences.Exchange --> wire.Fence
	mpiexec   launch.Job.handleFence --> Coordinator.Join --> wire.Fenced to each node, with the last wire.Fence
	helper    Session.handleFrame --> rpc.Fences.Deliver --> Exchange returns
	          Local.finishFence --> Decode, show, then release of each rank, which sends the reply

Decode is pmiserver.Server.decodeFence, or pmix.collective.decodeBlobs. If all members are on one
node, Local does not call the Exchanger.

Each node joins a fence once: its last local rank starts the exchange. mpiexec encodes the result
once, and each node decodes it once. This package does not look into the blobs.

Every node receives the same blobs in the same order, with its own among them. Leaving its own
out would save a node 1/N of the bytes (one of 1000 times 6 kB at 1,000 nodes of 64 ranks). But
then each node would need another reply. So mpiexec encodes and compresses the reply once and
sends the same bytes 1,000 times, and a key put on two nodes has the same value everywhere. The
coordinator holds each blob once, whatever the number of nodes. If no node brought any bytes, the
reply has no blobs.
*/
package fence
