//go:build linux

package helper

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"remshell/helper/probe"
	"remshell/helper/rpc"
	"remshell/helper/sessiondir"
	"remshell/idset"
	"remshell/job"
	"remshell/pmiserver"
	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix"
	"remshell/pmiserver/pmix/jobinfo"
	"remshell/pmiserver/pmix/message"
	"remshell/proc"
	"remshell/wire"
)

// A pmixService is the PMIx server of this node, with its files. It exists only while at least one rank on
// this node can use PMIx (rule PMIX-15).
type pmixService struct {
	server    pmix.Server
	uri       string // at which ranks find the server
	name      string // of the server, as PMIx clients see it
	dir       *sessiondir.Dir
	leftFiles sessiondir.Leftovers
	keptDirs  *keptSessionDirs
}

// startPMIxServer starts the PMIx server for a group, unless it already runs.
func (s *Session) startPMIxServer(g *Group) error {
	if s.pmix != nil {
		return nil
	}
	service := &pmixService{dir: sessiondir.NewDir(s.sys.Environ), keptDirs: &s.keptDirs, name: "srv-" + g.Prepare.PMI.Token}
	service.dir.Keep = g.Prepare.Supervision.KeepSessions
	service.server.UID = uint32(os.Geteuid())
	service.server.SocketOwner = func(conn net.Conn) (uint32, error) { return connOwner(s.sys.Root, conn) }
	service.server.Fetcher, service.server.Notifier = s.Providers.Fetcher, s.Providers.Notifier
	service.server.GroupFinder = &remoteGroups{requests: s.requests, prepare: g.Prepare, server: service.name}
	service.server.OtherNodes, service.server.Names = s.fences, s.Providers.PMIxNames
	service.server.SharesNames = s.Providers.SharesNames
	service.server.GiveUpStuck = g.Prepare.Supervision.KeepAll
	service.server.Broken = func(err error) {
		s.conn.Send(&wire.PMIReport{Rank: -1, Event: wire.PMIBarrierBroken, Text: err.Error()})
	}
	service.server.Note = func(text string) { s.log.inform("%s", text) }
	uri, err := service.server.Listen()
	if err != nil {
		return err
	}
	service.uri = uri
	s.pmix = service
	return nil
}

// removePMIx removes an ended group and its files from the PMIx server. The server ends when no group uses it
// any more (rule PMIX-17). A group that is prepared but not started uses it, too.
func (s *Session) removePMIx(g *Group) {
	if s.pmix == nil {
		return
	}
	s.pmix.server.RemoveGroup(g.Prepare.Group.Name)
	if service := s.pmix; g.pmix != nil {
		s.pmixClosing.Go(func() { service.removeGroupFiles(g, s.log) })
	}
	s.closeUnwantedPMIx(g)
}

// closeUnwantedPMIx ends the PMIx server if no group other than leaving uses it. leaving may be nil.
func (s *Session) closeUnwantedPMIx(leaving *Group) {
	for _, other := range s.groups {
		if other != leaving && other.pmix != nil {
			return
		}
	}
	s.closePMIx()
}

// closePMIx closes the PMIx server and then removes its files. It does so on another goroutine, because clients
// may wait for replies that only the session's goroutine can give. reportDrained waits until it has finished.
func (s *Session) closePMIx() {
	if service := s.pmix; service != nil {
		s.pmixClosing.Go(func() { service.close(s.log) })
		s.pmix = nil
	}
}

func (l *pmixService) close(log logger) {
	l.server.Close()
	if n := l.server.RefusedConns(); n > 0 {
		log.inform("the PMIx server refused %d connections", n)
	}
	for _, err := range l.leftFiles.RemoveAll() {
		log.inform("cannot remove a file of a rank that uses PMIx: %v", err)
	}
	left, err := l.dir.Remove()
	if err != nil {
		log.inform("cannot remove the PMIx session directory: %v", err)
	}
	l.keptDirs.addDir(left)
}

// A keptSessionDirs lists session directories of Open MPI that are not removed and whose names mpiexec does
// not know yet (rule PMIX-56).
type keptSessionDirs struct {
	mu   sync.Mutex
	dirs []string
}

func (s *keptSessionDirs) addDir(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dir != "" && len(s.dirs) < wire.MaxSessions {
		s.dirs = append(s.dirs, dir)
	}
}

func (s *keptSessionDirs) takeDirs() (dirs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dirs, s.dirs = s.dirs, nil
	return dirs
}

// registerFiles records, at a rank's request, files to remove when the rank ends. If the helper is killed, the
// reaper removes them. registerFiles returns the files that it refuses to record.
func (l *pmixService) registerFiles(rank int, files []string, log logger) (refused []string) {
	refused = l.leftFiles.AddFiles(rank, files)
	kept := slices.DeleteFunc(slices.Clone(files), func(file string) bool { return slices.Contains(refused, file) })
	if err := l.dir.AppendCleanup(kept); err != nil {
		log.inform("cannot record the files to remove when rank %d ends: %v", rank, err)
	}
	return refused
}

// removeGroupFiles removes the files of an ended group. It does not wait for the end of the job, because a
// job may spawn groups for days.
func (l *pmixService) removeGroupFiles(g *Group, log logger) {
	var ranks []int
	for _, r := range g.ranks {
		ranks = append(ranks, r.Number)
	}
	errs := append(l.leftFiles.Remove(ranks), l.dir.RemoveNamespace(namespaceOf(g.Prepare)), l.dir.WriteCleanup(l.leftFiles.ListAll()))
	for _, err := range errs {
		if err != nil {
			log.inform("cannot remove a file of a rank that uses PMIx: %v", err)
		}
	}
}

// namespaceOf returns the PMIx namespace of a group. It contains the secret of the job (rule PMIX-19).
func namespaceOf(m *wire.Prepare) string { return groupNamespace(m, m.Group.Name) }

// groupNamespace returns the PMIx namespace of a group. m may be the Prepare of another group of the same job. A
// namespace ends with "@" and the group's number. The part before the @ is the same for all groups, because Open MPI
// 5.0 hashes that part to 16 bits.
func groupNamespace(m *wire.Prepare, group string) string {
	return "rs-" + m.PMI.Token + "@" + strconv.Itoa(m.Job.GroupNumber(group))
}

// addPMIx registers a group with the PMIx server.
func (s *Session) addPMIx(g *Group) {
	m, service := g.Prepare, s.pmix
	added := pmix.Group{Name: m.Group.Name, Namespace: namespaceOf(m), Size: m.Group.Size, Ranks: g.rankNumbers(),
		Job:     func(ctx context.Context) (jobinfo.Job, error) { return service.jobInfo(ctx, s, g) },
		Spawner: s.newSpawner(g), Events: s.pmixEvents(g)}
	if m.Group.PMIx {
		added.Parent, added.ParentRank = groupNamespace(m, m.Group.Parent), m.Group.ParentRank
	}
	service.server.AddGroup(added)
}

// giveUpFence ends a fence with an error, because it was given up on another node.
func (s *Session) giveUpFence(m *wire.Fenced) {
	id, err := fence.ParseID(m.ID)
	if err == nil && (s.pmix == nil || !s.pmix.server.GiveUp(id)) {
		s.fences.GiveUp(id, false)
	}
}

// rankNumbers returns the numbers that the group's ranks on this node have within the group.
func (g *Group) rankNumbers() []int {
	numbers := make([]int, len(g.ranks))
	for i, r := range g.ranks {
		numbers[i] = r.Plan.Rank
	}
	return numbers
}

// jobInfo returns the PMIx job information for the ranks of a group, and creates the directories of the group. It asks
// mpiexec which node each rank is on, and waits for the reply. So it must not run on the session's goroutine.
func (l *pmixService) jobInfo(ctx context.Context, s *Session, g *Group) (jobinfo.Job, error) {
	m := g.Prepare
	where, err := s.requests.Peers(ctx, m)
	if err != nil {
		return jobinfo.Job{}, err
	}
	info := jobinfo.Job{Namespace: namespaceOf(m), Server: l.name, NodeOf: where.NodeOfRank, Apps: g.pmix.AppSizes, Universe: g.pmix.Universe,
		HereNode: m.Node.Index, Oversubscribed: g.pmix.Oversubscribed(), Bound: make(map[int]jobinfo.Binding), FullUpTo: jobinfo.FullRanks}
	info.Nodes = nodesOf(where)
	for _, r := range g.ranks {
		if r.Plan.CPUs != nil {
			info.Bound[r.Plan.Rank] = jobinfo.Binding{CPUs: idset.Text(r.Plan.CPUs), Locality: s.topology.Locality(r.Plan.CPUs)}
		}
	}
	info.Dir = l.dir.Path
	if err := l.dir.AddNamespace(info.Namespace, g.rankNumbers()); err != nil {
		info.Dir = ""
		s.log.warn("cannot create the PMIx session directory on %s, so Open MPI puts its files into /tmp: %v", m.Node.Name, err)
	}
	return info, nil
}

// pmixEvents returns the callbacks that the PMIx server calls for events of a group's ranks.
func (s *Session) pmixEvents(g *Group) pmix.Events {
	of := make(map[int]*Rank, len(g.ranks))
	for _, r := range g.ranks {
		of[r.Plan.Rank] = r
	}
	first, service := g.Prepare.Group.First, s.pmix
	report := func(rank int, event wire.PMIEvent, why error) {
		s.sendAboutRank(of[rank], &wire.PMIReport{Rank: first + rank, Event: event, Text: why.Error()})
	}
	events := pmix.Events{
		Abort: func(rank, code int, message string) bool {
			of[rank].pmiState.Store(int32(job.PMIAborted))
			return s.sendAboutRank(of[rank], &wire.PMIReport{Rank: first + rank, Event: wire.PMIAborted, Code: pmiserver.AbortExitCode(code), Text: pmiserver.AbortText(code, message)})
		},
		StateChanged: func(rank int, to pmix.State) {
			switch to {
			case pmix.Initialized:
				of[rank].pmiState.Store(int32(job.PMIOpen))
				of[rank].initedBy[protocolPMIx].Store(true)
			case pmix.Finalized:
				of[rank].pmiState.Store(int32(job.PMIFinalized))
			}
		},
		FenceEntered: func(rank int) { s.reportFenceWait(of[rank], protocolPMIx) },
		Lost:         func(rank int, why error) { report(rank, wire.PMIDisconnected, why) },
		Junk:         func(rank int, why error) { report(rank, wire.PMIMalformed, why) },
		Note:         func(rank int, text string) { s.log.inform("rank %d: %s", first+rank, text) },
		Warn:         func(rank int, text string) { s.log.warn("rank %d: %s", first+rank, text) },
		Cleanup:      func(rank int, files []string) []string { return service.registerFiles(first+rank, files, s.log) },
	}
	if printText := s.Providers.PrintText; printText != nil {
		events.Print = func(ctx context.Context, rank int, text message.LogText) { printText(ctx, of[rank], text) }
	}
	if s.Hooks.PMILine != nil {
		events.Trace = func(rank int, line string) { s.tracePMI(of[rank], line) }
	}
	return events
}

// connOwner returns the uid of the process at the other end of a loopback connection. It asks the kernel by
// netlink, or else reads /proc/net/tcp (rule PMIX-18). If no process has the socket, the error is
// pmix.ErrNoOwner.
func connOwner(root fs.FS, conn net.Conn) (uid uint32, err error) {
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return 0, err
	}
	remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return 0, err
	}
	n, err := proc.SocketOwner(remote, local)
	switch {
	case err == nil:
		return uint32(n), nil
	case errors.Is(err, proc.ErrNoSocket):
		return 0, pmix.ErrNoOwner
	}
	table, tableErr := fs.ReadFile(root, "proc/net/tcp")
	if tableErr != nil {
		return 0, fmt.Errorf("%w; %w", err, tableErr)
	}
	n, known := probe.SocketOwner(string(table), remote, local)
	if !known {
		return 0, pmix.ErrNoOwner
	}
	return uint32(n), nil
}

// remoteGroups implements pmix.GroupFinder for groups of the job that have no ranks on this node. It asks
// mpiexec about them (rule PMIX-45).
type remoteGroups struct {
	requests *rpc.Requests
	prepare  *wire.Prepare // of any group of the job
	server   string        // name of the PMIx server here
}

// Namespace implements pmix.GroupFinder: it returns the PMIx namespace of a group of ranks.
func (e *remoteGroups) Namespace(group string) string { return groupNamespace(e.prepare, group) }

var errNoGroup = errors.New("the job has no group of ranks with this name")

// FindGroup implements pmix.GroupFinder: it returns the group of a namespace. It asks mpiexec only if
// namespace belongs to the job; otherwise it returns errNoGroup.
func (e *remoteGroups) FindGroup(ctx context.Context, namespace string) (pmix.Group, error) {
	digits := namespace[strings.LastIndexByte(namespace, '@')+1:]
	number, err := strconv.Atoi(digits)
	if err != nil || number < 0 {
		return pmix.Group{}, errNoGroup
	}
	name := e.prepare.Job.GroupName(number)
	if subtle.ConstantTimeCompare([]byte(e.Namespace(name)), []byte(namespace)) == 0 {
		return pmix.Group{}, errNoGroup
	}
	where, err := e.requests.PeersOfGroup(ctx, name)
	if err != nil {
		return pmix.Group{}, err
	}
	info, err := e.jobInfo(namespace, where)
	if err != nil {
		return pmix.Group{}, err
	}
	job := func(context.Context) (jobinfo.Job, error) { return info, nil }
	return pmix.Group{Name: name, Namespace: namespace, Size: len(where.NodeOfRank), Job: job}, nil
}

// jobInfo returns the PMIx job information of a group that has no ranks on this node. It returns errNoGroup if rankMap
// is inconsistent.
func (e *remoteGroups) jobInfo(namespace string, rankMap *wire.RankMap) (jobinfo.Job, error) {
	ranks := 0
	for _, n := range rankMap.AppSizes {
		ranks += n
	}
	ranked := make([]bool, len(rankMap.Nodes))
	for _, node := range rankMap.NodeOfRank {
		if node >= len(rankMap.Nodes) {
			return jobinfo.Job{}, errNoGroup
		}
		ranked[node] = true
	}
	if len(rankMap.NodeOfRank) == 0 || ranks != len(rankMap.NodeOfRank) {
		return jobinfo.Job{}, errNoGroup
	}
	info := jobinfo.Job{Namespace: namespace, Server: e.server, NodeOf: rankMap.NodeOfRank, Apps: rankMap.AppSizes, HereNode: -1,
		Universe: cmp.Or(e.prepare.PMI.Universe, e.prepare.PMI.Slots), FullUpTo: jobinfo.FullRanks}
	if slices.Contains(ranked, false) {
		return jobinfo.Job{}, errNoGroup
	}
	info.Nodes = nodesOf(rankMap)
	return info, nil
}

// nodesOf returns the nodes of a group for its job information.
func nodesOf(rankMap *wire.RankMap) []jobinfo.Node {
	nodes := make([]jobinfo.Node, len(rankMap.Nodes))
	for i, name := range rankMap.Nodes {
		nodes[i].Name = name
		if i < len(rankMap.EarlierRanks) {
			nodes[i].EarlierRanks = rankMap.EarlierRanks[i]
		}
	}
	return nodes
}
