/*
Package fence synchronizes the ranks of a job and exchanges the keys that they have put. The ID of a fence names
its members. In PMI-1 and PMI-2 the members are always a whole group. In PMIx they may be any ranks.

	rank     rank        Local (helper)       Coordinator (mpiexec)  Local (other helper)
	  | Enter --------------> |                      |                       |
	  |        | Enter -----> |  Fence(id, blob)     |                       |
	  |        |              | -------------------> | Join                  |
	  |        |              |                      | <---- Fence(id, blob) |
	  |        |              | <------------------- | --------------------> |
	  |        |              |  blobs of all nodes  |   the same bytes      |
	  | <------ release       | Decode, publish      |                       |
	  |        | <-- release  |                      |                       |

The calls between a rank's request and its reply:

	a PMI barrier     pmiserver.rankSession.Fence   \
	a PMIx fence      pmix.collective.enterFence     > Local.Enter; the last local rank starts a goroutine:
	                                                /
	helper    Local.exchangeBlobs --> Exchanger.Exchange = rpc.Fences.Exchange --> wire.Fence
	mpiexec   launch.Job.handleFence --> Coordinator.Join --> wire.Fenced to each node, with the last wire.Fence
	helper    Session.handleFrame --> rpc.Fences.Deliver --> Exchange returns
	          Local.finishFence --> Decode, publish, then release of each rank, which sends the reply

Decode is pmiserver.Server.decodeFence, or pmix.collective.decodeBlobs. If all members are on one
node, Local does not call the Exchanger.

Each node joins a fence once: its last local rank starts the exchange. mpiexec encodes the result
once, and each node decodes it once. This package does not decode the blobs.

Every node receives the same blobs in the same order, including its own. Leaving out the node's own blob would save
little, and would make each node's reply different. So mpiexec encodes and compresses one reply and sends the same
bytes to all nodes, and a key put on two nodes has the same value everywhere. The coordinator holds each blob once, for
any number of nodes. If no node has contributed any bytes, the reply has no blobs.
*/
package fence
