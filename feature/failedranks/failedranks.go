/*
Package failedranks is the feature of mpiexec by which ranks find out that other ranks have failed, if the job continues
without them (-disable-auto-cleanup). The PMI key PMI_dead_processes lists the failed ranks. MPICH 3.x reads it for
MPIX_Comm_failure_ack, and again on SIGUSR1.

	rank fails ---> mpiexec --FailedRanks--> nodes that still run ranks of its group
	                  |                         '--> PMI server; SIGUSR1 to ranks that expect it
	                  '-- one message for all ranks that fail within 100 ms
*/
package failedranks

import (
	"slices"
	"time"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/supervise"
	"remshell/wire"
)

// FailedRanks lists all ranks of a group that have failed so far. It is sent if the other ranks continue
// (job.EndPolicy.KeepAll).
type FailedRanks struct {
	Group string
	Ranks []int // in the group, in the order in which they ended
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *FailedRanks) Fields(c *wire.Codec) {
	c.Word(&m.Group, "group")
	c.Nums(&m.Ranks, wire.Length{Name: "ranks", Max: 1 << 24}, wire.RankRange)
}

func init() {
	wire.Register[FailedRanks](97, wire.Row{Sender: wire.Launcher, Phase: wire.Running, MaxBody: 1 << 30, Example: func(rank int) wire.Message {
		return &FailedRanks{Group: "g", Ranks: []int{max(rank, 0)}}
	}})
	launch.Register(launch.Feature{Name: "failed ranks", Attach: attach})
}

// sendDelay is how long mpiexec collects failed ranks before it sends them to the nodes in one message.
const sendDelay = 100 * time.Millisecond

// A groupFailures records the failed ranks of a group.
type groupFailures struct {
	ranks []int // in the group
	sent  int   // how many of them the nodes know
}

func attach(j *launch.Job) {
	groups := make(map[*launch.Group]*groupFailures)
	send := func(g *launch.Group) {
		f := groups[g]
		if f == nil { // the group is over
			return
		}
		f.sent = len(f.ranks)
		for _, n := range g.Nodes {
			if g.HasRanksOn(n) {
				n.Send(&FailedRanks{Group: g.Name, Ranks: slices.Clone(f.ranks)})
			}
		}
	}
	j.Hooks.RankEnded.Add(func(_ *launch.Node, g *launch.Group, exit *job.Exit) {
		if !exit.Failed() || !j.State.KeepsAll() {
			return
		}
		f := groups[g]
		if f == nil {
			f = new(groupFailures)
			groups[g] = f
		}
		if f.sent == len(f.ranks) {
			time.AfterFunc(sendDelay, func() {
				j.Post(func() []supervise.Event {
					send(g)
					return nil
				})
			})
		}
		_, number := j.GroupOf(exit.Rank)
		f.ranks = append(f.ranks, number)
	})
	j.Hooks.GroupEnded.Add(func(g *launch.Group) { delete(groups, g) })
}
