//go:build linux

package helper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"remshell/helper/rank"
	"remshell/helper/uplink"
	"remshell/job"
	"remshell/pmiserver"
	"remshell/pmiserver/fence"
	"remshell/pmiserver/transcript"
	"remshell/wire"
)

// A group is the ranks of this node that have one MPI_COMM_WORLD: those of the command
// line, or those of one spawn.
type group struct {
	prepare *wire.Prepare
	ranks   []*process
	pmi     *pmiserver.Server
	offers  map[int]*offering // by section
	pmix    *rank.PMIx        // nil: no rank is offered it
	pruned  atomic.Bool       // they are killed, since one of them could not be started
	waits   [2]atomic.Bool    // mpiexec was told that one of them waits for all by PMI, or by PMIx

	address    string   // that Member.Iface means, or what else peers reach the node by; empty: unknown
	rendezvous string   // address and port where torch's ranks can meet; empty: nobody asked
	reserved   *os.File // keeps that port free until the ranks start; nil: none
}

// window is how many bytes of an output stream of a rank may be under way.
func (g *group) window() int {
	if g.prepare.Streams.Window > 0 {
		return g.prepare.Streams.Window
	}
	return wire.Window
}

// newGroup makes ready what Prepare asks for.
func (s *session) newGroup(m *wire.Prepare) (*group, *rank.Error) {
	g := &group{prepare: m, address: s.address(m), offers: make(map[int]*offering)}
	confined, refused := rank.Confine(m.Process.Bounds)
	if refused != nil {
		return nil, refused
	}
	for _, plan := range m.Ranks {
		app := m.Apps[plan.App]
		r := &process{group: g, number: m.Group.First + plan.Rank, plan: plan, command: rank.Command{Argv: app.Argv, Dir: app.Dir, Confined: confined}, born: make(chan struct{})}
		if slices.Contains(m.Streams.Stdin, plan.Rank) {
			r.in = newStdinWriter(r.number, s.conn.Send)
		}
		if r.command.Terminal = slices.Contains(m.Streams.PTY, plan.Rank); r.command.Terminal && r.in != nil {
			r.in.last = rank.EndOfInput
		}
		refused := s.locate(g, r, m.Process.Base, app)
		if refused == nil && r.staged == "" {
			refused = s.offer(g, r)
		}
		if refused != nil {
			return nil, refused
		}
		g.ranks = append(g.ranks, r)
	}
	if refused := g.openRendezvous(); refused != nil {
		return nil, refused
	}
	g.pmi = s.newPMI(g)
	if m.PMI.Port {
		if refused := s.expect(g); refused != nil {
			return nil, refused
		}
	}
	s.admitPMIx(g)
	return g, nil
}

// locate finds the rank's directory, environment and program; the ranks of an app
// share them.
func (s *session) locate(g *group, r *process, base job.Env, app job.App) *rank.Error {
	for _, other := range g.ranks {
		if other.plan.App == r.plan.App {
			r.staged, r.command.Path, r.command.Dir, r.command.Env = other.staged, other.command.Path, other.command.Dir, other.command.Env
			return nil
		}
	}
	if !filepath.IsAbs(r.command.Dir) { // the login directory, as with the remote shells of old
		r.command.Dir = filepath.Join(job.Value(s.sys.Environ, "HOME"), r.command.Dir)
	}
	if refused := rank.Enterable(r.command.Dir); refused != nil {
		return refused
	}
	tell := func(text string) { s.log.inform("%s", text) }
	r.command.Env = rank.AppEnv(s.sys.Environ, rank.Existing(base, tell), rank.Existing(app.Env, tell), r.command.Dir)
	if r.staged = app.Staged; r.staged != "" {
		return nil // it is looked for when it has come
	}
	path, refused := rank.Locate(r.command.Argv[0], r.command.Dir, app.Path, rank.SearchPath(r.command.Env), app.Behind...)
	r.command.Path = path
	return refused
}

// add takes in the ranks of a group that starts; life numbers them from first.
func (s *session) add(g *group, first int) {
	for i, r := range g.ranks {
		r.index = first + i
		s.ranks[r.index], s.byRank[r.number] = r, r
	}
}

// endGroup notes that all ranks of a group are over. What a spawned group has claimed is free for
// others then, such as the next one; the job's own claim stays until nothing of it is left here.
func (s *session) endGroup(g *group) {
	s.unexpect(g)
	s.removePMIx(g)
	if g.prepare.Group.First > 0 {
		s.claims.Release(g.prepare.Group.Name, func() {})
	}
	if s.groups[g.prepare.Group.Name] == g {
		delete(s.groups, g.prepare.Group.Name)
	}
	for _, r := range g.ranks {
		r.awaitSilence(func() { s.tell(silentEvent{r}) })
	}
}

// retire keeps no more than a row of a rank that is over and whose pipes have ended, since a job
// may spawn for days. What ranks leave behind may write to their pipes until then.
func (s *session) retire(r *process) {
	delete(s.ranks, r.index)
	if s.byRank[r.number] == r {
		s.byRank[r.number] = nil
	}
	if s.port != nil {
		s.port.forget(r.group.pmi, r.plan.Rank)
	}
	s.silent = append(s.silent, r.state(nil))
}

// prune lets no further rank of a group come up, and leads none to a happy end.
func (s *session) prune(g *group) {
	g.pruned.Store(true)
	s.unexpect(g)
	g.pmi.Freeze()
}

// errPruned is why a rank was not even tried.
var errPruned = rank.Internal("another one of its group could not be started", "")

// newPMI makes the server that answers a group's ranks on this node.
func (s *session) newPMI(g *group) *pmiserver.Server {
	m := g.prepare
	info := pmiserver.Info{Name: m.Group.Name, Size: m.Group.Size, Mapping: m.PMI.Mapping, Universe: m.PMI.Universe,
		Parent: m.Group.Parent, Preputs: m.PMI.Preputs}
	for _, r := range m.Ranks {
		info.Ranks = append(info.Ranks, r.Rank)
	}
	of := make(map[int]*process, len(g.ranks))
	for _, r := range g.ranks {
		of[r.plan.Rank] = r
	}
	info.AppNum = func(rank int) int { return of[rank].plan.App }
	var others fence.Exchanger // nil: there is no other node
	if m.Group.Nodes > 1 {
		others = s.fences
	}
	server := pmiserver.New(info, others)
	server.Hosts = func(ctx context.Context) ([]string, []int, error) {
		where, err := s.asked.Peers(ctx, m)
		if err != nil {
			return nil, nil, err
		}
		return where.Nodes, where.Of, nil
	}
	if m.PMI.Trace {
		server.Trace = func(rank int, line string) { s.trace(of[rank], line) }
	}
	server.Names, server.Spawner = uplink.Names{Questions: s.asked}, uplink.Spawner{Questions: s.asked, Dir: func(rank int) string { return of[rank].command.Dir }}
	server.Abort = func(rank, code int, message string) {
		s.trace(of[rank], strings.TrimRight(fmt.Sprintf("> KILL(%d) %s", code, transcript.Escape([]byte(message))), " "))
		s.say(of[rank], &wire.PMI{Rank: m.Group.First + rank, Event: wire.PMIAborted, Code: code, Text: message})
	}
	server.Broken = func(err error) {
		text := err.Error()
		if m.Group.First > 0 {
			text = "spawned ranks: " + text
		}
		s.conn.Send(&wire.PMI{Rank: -1, Event: wire.PMIBroken, Text: text})
	}
	server.Entering = func(rank int) { s.waits(of[rank], byPMI) }
	server.Aborting = func(rank int) { of[rank].pmiState.Store(int32(job.PMIAborted)) }
	server.Changed = func(rank int, _, to pmiserver.State) {
		switch to {
		case pmiserver.Inited:
			of[rank].pmiState.Store(int32(job.PMIOpen))
			of[rank].spoken[byPMI].Store(true)
		case pmiserver.Finalized:
			of[rank].pmiState.Store(int32(job.PMIFinalized))
		}
	}
	server.Note = func(rank int, text string) { s.log.warn("rank %d: pmi: %s", m.Group.First+rank, text) }
	return server
}
