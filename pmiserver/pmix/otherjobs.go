package pmix

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/jobinfo"
)

/*
Processes of two jobs connect and disconnect (PMIx_Connect) by published names, if jobs share these (Links.SharesNames).
Each job knows the namespaces of the other one, since its ranks have exchanged them, and nothing else:

	node 2 of job A     node 1 of job A (has the first member)        names        job B
	  | -- fence --------> |                                                         |
	  | <----------------- |  data of all members of A                               |
	                       | publish: job info of A, data  --> A to B  ------------> |  the same there
	                       | <------------------- await, B to A <------------------- |
	                       | publish, await: A and B have got it <---------------->  |
	  | <-- fence -------- |  job info and data of B

The first look-up removes a name, so none is left. One more name of each job lasts as long as the job: if it goes, the
other job waits no longer. A group of another job has no ranks here. Its data does not change
afterwards.
*/

// A groupRecord describes a group of ranks of one job to another job.
type groupRecord struct {
	Namespace string
	Universe  int
	Nodes     []jobinfo.Node
	NodeOf    []int // index in Nodes, by rank
	Apps      []int
	Data      map[int][]byte // by rank: what the members of the set have committed for other nodes
}

// NamePrefix is the beginning of the names through which the servers of two jobs exchange data.
const NamePrefix = "remshell-"

// These are limits for the data that jobs exchange when they connect (pmix-wire.md 11).
const (
	maxJobBytes   = 1 << 20   // bytes that a job sends
	maxPieceBytes = 3 << 10   // bytes of one name's value
	maxOtherJobs  = 1 << 10   // groups of other jobs that a server has at a time
	unknownSize   = 1<<31 - 1 // size of a group of another job in a procSet
)

const (
	presenceEvery = time.Second // between two looks whether another job has ended
	joinWithin    = time.Minute // in which another job must have used names
	gotSuffix     = "-got"      // of the name by which a job confirms what it has received
)

var errJobEnded = errors.New("the other job has ended")

var errOtherJob = errors.New("the other job sent invalid data")

// jobOf returns the part of a namespace that is the same in all groups of a job. ok is false if the namespace was not
// created by this program.
func jobOf(namespace string) (job string, ok bool) {
	job, _, ok = strings.Cut(namespace, "@")
	return job, ok && job != ""
}

// isForeign reports whether this part of a set of processes belongs to another job.
func (part setPart) isForeign() bool { return part.size == unknownSize }

// groupOrForeign returns a function like groupSize that also accepts namespaces of other jobs. For such a
// namespace, the function returns the namespace itself as the name of the group.
func (s *Server) groupOrForeign(ownNamespace string) func(namespace string) (group string, size int, known bool) {
	ownJob, _ := jobOf(ownNamespace)
	return func(namespace string) (group string, size int, known bool) {
		if job, ok := jobOf(namespace); ok && job != ownJob && s.SharesNames {
			return namespace, unknownSize, true
		}
		return s.groupSize(namespace)
	}
}

// ownParts returns the parts of a set of processes that belong to this server's job.
func (s procSet) ownParts() procSet {
	return slices.DeleteFunc(slices.Clone(s), setPart.isForeign)
}

func (part setPart) lowest() int {
	if len(part.ranks) > 0 {
		return part.ranks[0]
	}
	return 0
}

// text returns a string that identifies this set of processes. All jobs with processes in the set compute the same
// string. The string contains only the lowest rank of each group. That suffices, because a process takes part in only
// one collective with other jobs at a time.
func (s procSet) text() string {
	var words []string
	for _, part := range s {
		words = append(words, fmt.Sprintf("%s/%d", part.namespace, part.lowest()))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// A jobsExchanger implements fence.Exchanger for a collective with processes of several jobs. It exchanges
// data with the other nodes of this job and with the other jobs.
type jobsExchanger struct {
	m    *collective
	own  procSet
	text string
	past int // exchanges that are over, also failed ones; the goroutine of the exchange owns it
}

// useOtherJobs makes a collective exchange its data with other jobs, if its set contains processes of other
// jobs.
func (m *collective) useOtherJobs() {
	own := m.set.ownParts()
	if len(own) == len(m.set) {
		return
	}
	x := &jobsExchanger{m: m, own: own, text: string(m.key.kind) + " " + m.set.text()}
	m.local.Kind, m.local.Members, m.local.OtherNodes = fence.OtherJobs.WithTag(x.text), own.fenceMembers(), x
}

// Exchange implements fence.Exchanger: it exchanges data with the other nodes of this job and with the other
// jobs.
func (x *jobsExchanger) Exchange(ctx context.Context, id fence.ID, mine []byte) (all [][]byte, err error) {
	defer func() { x.past++ }()
	all = [][]byte{mine}
	if x.hasOtherNodes() {
		if all, err = x.m.server.OtherNodes.Exchange(ctx, id, mine); err != nil {
			return nil, err
		}
	}
	var received []byte
	if first := x.first(); first != nil {
		groups, err := x.exchangeJobs(ctx, all)
		if err == nil {
			received, err = json.Marshal(groups)
		}
		if err != nil {
			first.group.warn(first.rank.number, "PMIx: cannot connect to another job: "+err.Error())
			received = nil
		}
	}
	if x.hasOtherNodes() {
		id.Kind = fence.OtherJobs.WithTag(x.text + " 2")
		blobs, err := x.m.server.OtherNodes.Exchange(ctx, id, received)
		if err != nil {
			return nil, err
		}
		received = slices.Concat(blobs...) // of one node; those of the others are empty
	}
	var groups []groupRecord
	if json.Unmarshal(received, &groups) != nil {
		return nil, fence.ErrGivenUp
	}
	x.m.server.useForeignGroups(x.m.key.kind, groups)
	return all, nil
}

// GiveUp implements fence.Exchanger: it reports to the other nodes of this job that this node no longer waits
// for a fence.
func (x *jobsExchanger) GiveUp(id fence.ID, exchanging bool) {
	if x.hasOtherNodes() {
		x.m.server.OtherNodes.GiveUp(id, exchanging)
	}
}

// hasOtherNodes reports whether other nodes of this job have ranks in the collective.
func (x *jobsExchanger) hasOtherNodes() bool { return len(x.m.participants) < x.own.size() }

// first returns the first member of this job in the set of processes, or nil if that member is on another node.
// The node of the first member exchanges data with other jobs for the whole job.
func (x *jobsExchanger) first() *participant {
	part := x.own[0]
	for _, p := range x.m.participants {
		if p.group.Name == part.group && p.rank.number == part.lowest() {
			return p
		}
	}
	return nil
}

// exchangeJobs sends the data of this job to the other jobs in the set of processes. It returns the groups that
// these jobs send.
func (x *jobsExchanger) exchangeJobs(ctx context.Context, all [][]byte) (groups []groupRecord, err error) {
	s := x.m.server
	ownJob, _ := jobOf(x.own[0].namespace)
	mine, failed := x.describe(ctx, all)
	if failed == nil && len(mine) > maxJobBytes {
		failed = fmt.Errorf("the job must send %d bytes to another job, but at most %d are allowed", len(mine), maxJobBytes)
	}
	if failed != nil {
		mine = nil // with that the other jobs fail, too
	}
	others := make(map[string][]string) // by job: its namespaces in the set
	for _, part := range x.m.set {
		if part.isForeign() {
			job, _ := jobOf(part.namespace)
			others[job] = append(others[job], part.namespace)
		}
	}
	if err := s.announceJob(ctx, ownJob); err != nil {
		return nil, err
	}
	for job := range others {
		if err := s.sendToJob(ctx, x.namePrefix(ownJob, job), mine); err != nil {
			return nil, err
		}
	}
	if failed != nil {
		return nil, failed
	}
	for job, namespaces := range others {
		text, err := s.receiveFromLiving(job, x.namePrefix(job, ownJob))
		if err != nil {
			return nil, err
		}
		theirs, err := decodeJob(text, namespaces)
		if err != nil {
			return nil, err
		}
		groups = append(groups, theirs...)
	}
	for job := range others { // a job must not end, and take its names with it, before the others have them
		if err := s.sendToJob(ctx, x.namePrefix(ownJob, job)+gotSuffix, nil); err != nil {
			return nil, err
		}
	}
	for job := range others {
		if _, err := s.receiveFromLiving(job, x.namePrefix(job, ownJob)+gotSuffix); err != nil && !errors.Is(err, errJobEnded) {
			return nil, err
		}
	}
	return groups, nil
}

// announceJob publishes the name that shows other jobs that this job has not ended. It is not an error if another node
// has already published the name.
func (s *Server) announceJob(ctx context.Context, job string) error {
	_, err := s.Names.Publish(ctx, presenceOf(job), Name{Port: "here"})
	s.announced.Store(err == nil)
	return err
}

// presenceOf returns the name that a job publishes to show that it has not ended. The job publishes this name before it
// first accesses the names that jobs share. The name remains until the job ends.
func presenceOf(job string) string {
	return fmt.Sprintf(NamePrefix+"job-%x", sha256.Sum256([]byte(job)))
}

// receiveFromLiving does the same as receiveFromJob, but returns errJobEnded if the other job ends first.
func (s *Server) receiveFromLiving(job, name string) (text []byte, err error) {
	ctx, end := context.WithCancelCause(s.waitCtx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watchJob(ctx, job, false, end)
	}()
	text, err = s.receiveFromJob(ctx, name)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	end(nil)
	<-watched
	return text, err
}

// watchJob watches the name that another job publishes to show that it has not ended. It calls end with errJobEnded
// when the name has disappeared, or has not appeared within joinWithin. After that, or when ctx ends, it returns. seen
// is true if the name has already appeared.
func (s *Server) watchJob(ctx context.Context, job string, seen bool, end func(error)) {
	began, missed := time.Now(), 0
	for {
		switch _, there, err := s.Names.Lookup(ctx, presenceOf(job)); {
		case err != nil: // the wait for the job's data reports it
			missed = 0
		case there:
			seen, missed = true, 0
		default:
			missed++
		}
		if missed > 1 && (seen || time.Since(began) >= joinWithin) {
			end(errJobEnded)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(presenceEvery):
		}
	}
}

// portOwners maps each port that a rank of this node has looked up to the job that opened the port. The job is
// in the form that jobOf returns.
type portOwners map[string]string

// maxPorts is the maximum number of ports whose owners a Server remembers.
const maxPorts = 1 << 10

// notePort records which other job opened a port that a rank has looked up. d is the result of the look-up, and
// namespace is the rank's namespace.
func (s *Server) notePort(d bfrops.Datum, namespace string) {
	ownJob, _ := jobOf(namespace)
	job, ok := jobOf(d.Publisher.Namespace)
	port, isText := d.Value.Text()
	if !s.SharesNames || !ok || job == ownJob || !isText || port == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ports == nil || len(s.ports) >= maxPorts {
		s.ports = make(portOwners)
	}
	s.ports[port] = job
}

// ownerOf returns the other job that opened the port with which a name begins, or "". Observed with Open MPI: names
// have the form PORT:accept.
func (s *Server) ownerOf(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ports[name[:max(0, strings.LastIndexByte(name, ':'))]]
}

// watchPortOwners finds the ports with which the given names begin, and watches the other jobs that opened these ports.
// It returns a context that also ends, with the cause errJobEnded, when one of these jobs ends. The caller must call
// stop, which ends the watch.
func (s *Server) watchPortOwners(ctx context.Context, names []string) (watched context.Context, stop func()) {
	watched, end := context.WithCancelCause(ctx)
	var watches sync.WaitGroup
	for _, name := range names {
		if job := s.ownerOf(name); job != "" {
			watches.Go(func() { s.watchJob(watched, job, true, end) })
		}
	}
	return watched, func() {
		end(nil)
		watches.Wait()
	}
}

// namePrefix returns the beginning of the names under which the job sender publishes data for the job receiver.
func (x *jobsExchanger) namePrefix(sender, receiver string) string {
	return fmt.Sprintf(NamePrefix+"%x-%d", sha256.Sum256([]byte(x.text+" "+sender+" "+receiver)), x.past)
}

// describe encodes those groups of this job that have processes in the set, with the data that their members have
// committed. all contains the records that the nodes of this job have exchanged. For a disconnect, describe adds no
// data.
func (x *jobsExchanger) describe(ctx context.Context, all [][]byte) ([]byte, error) {
	records, err := x.m.decodeRecords(all)
	if err != nil {
		return nil, err
	}
	var groups []groupRecord
	for i, part := range x.m.set {
		g := x.m.server.groupByName(part.group)
		if part.isForeign() || g == nil {
			continue
		}
		info, err := g.Job(ctx)
		if err != nil {
			return nil, err
		}
		r := groupRecord{Namespace: g.Namespace, Universe: info.Universe, Nodes: info.Nodes, NodeOf: info.NodeOf, Apps: info.Apps, Data: make(map[int][]byte)}
		for rank, p := range records[i] {
			r.Data[rank] = p.bytes
		}
		groups = append(groups, r)
	}
	return json.Marshal(groups)
}

// sendToJob publishes text for another job, in pieces. The first piece begins with the length of the text.
func (s *Server) sendToJob(ctx context.Context, name string, text []byte) error {
	if len(text) > maxJobBytes {
		return fmt.Errorf("the job must send %d bytes to another job, but at most %d are allowed", len(text), maxJobBytes)
	}
	rest := append(binary.AppendUvarint(nil, uint64(len(text))), text...)
	for i := 0; len(rest) > 0; i++ {
		piece := rest[:min(len(rest), maxPieceBytes)]
		rest = rest[len(piece):]
		switch added, err := s.Names.Publish(ctx, fmt.Sprint(name, "-", i), Name{Port: string(piece), Once: true}); {
		case err != nil:
			return err
		case !added:
			return errOtherJob // the name has a hash of both namespaces
		}
	}
	return nil
}

// receiveFromJob waits for text that another job publishes in pieces, and returns the text.
func (s *Server) receiveFromJob(ctx context.Context, name string) (text []byte, err error) {
	size := uint64(math.MaxUint64)
	for i := 0; uint64(len(text)) < size; i++ {
		n, err := s.Names.Await(ctx, fmt.Sprint(name, "-", i))
		if err != nil {
			return nil, err
		}
		piece := []byte(n.Port)
		if i == 0 {
			read := 0
			if size, read = binary.Uvarint(piece); read <= 0 || size > maxJobBytes {
				return nil, errOtherJob
			}
			piece = piece[read:]
		}
		if len(n.Port) == 0 {
			return nil, errOtherJob
		}
		text = append(text, piece...)
	}
	return text, nil
}

// decodeJob decodes and checks data that another job has sent. The data must describe exactly the groups with the given
// namespaces.
func decodeJob(text []byte, namespaces []string) (groups []groupRecord, err error) {
	if json.Unmarshal(text, &groups) != nil || len(groups) != len(namespaces) {
		return nil, errOtherJob
	}
	for _, g := range groups {
		if !slices.Contains(namespaces, g.Namespace) || !g.isValid() {
			return nil, errOtherJob
		}
		namespaces = slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool { return name == g.Namespace })
	}
	return groups, nil
}

// isValid reports whether the numbers and lengths in a record, which another job has sent, are possible.
func (r groupRecord) isValid() bool {
	ranks, used := 0, make([]bool, len(r.Nodes))
	for _, n := range r.Apps {
		if n < 0 || n > len(r.NodeOf) {
			return false
		}
		ranks += n
	}
	for _, node := range r.NodeOf {
		if node < 0 || node >= len(r.Nodes) {
			return false
		}
		used[node] = true
	}
	for rank, data := range r.Data {
		if rank < 0 || rank >= len(r.NodeOf) || !arePairs(data) {
			return false
		}
	}
	for _, node := range r.Nodes {
		if node.EarlierRanks < 0 || node.EarlierRanks > unknownSize/2 || len(node.Name) > maxNodeName {
			return false
		}
	}
	return len(r.NodeOf) > 0 && ranks == len(r.NodeOf) && !slices.Contains(used, false) && r.Universe >= 0 && r.Universe <= unknownSize
}

// maxNodeName is the maximum length of a node's name, in bytes.
const maxNodeName = 255

// arePairs reports whether data consists of encoded key-value pairs.
func arePairs(data []byte) bool {
	r := bfrops.NewReader(data)
	for r.More() {
		r.Pair()
	}
	return r.Err() == nil
}

// useForeignGroups processes groups of other jobs that the server has received in a collective. It adds new groups. A
// connect adds one connection to each group, and a disconnect removes one. A group without connections is removed. If
// there are too many groups, the oldest is also removed, because libraries need not report the end of a connection.
func (s *Server) useForeignGroups(kind fence.Kind, groups []groupRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range groups {
		g := s.foreignGroup(r.Namespace)
		if g == nil {
			g = s.addForeignGroup(r)
		}
		g.addForeignData(r)
		switch kind {
		case fence.Connect:
			g.connections++
		case fence.Disconnect:
			g.connections--
		}
		if g.connections <= 0 {
			s.groups = slices.DeleteFunc(slices.Clone(s.groups), func(x *group) bool { return x == g })
		}
	}
}

// foreignGroup returns the group of another job that has the given namespace, or nil. The caller holds s.mu.
func (s *Server) foreignGroup(namespace string) *group {
	for _, g := range s.groups {
		if g.otherJob && g.Namespace == namespace {
			return g
		}
	}
	return nil
}

// addForeignGroup adds a group of another job, and removes the oldest such group if there are too many. The caller
// holds s.mu.
func (s *Server) addForeignGroup(r groupRecord) *group {
	count, oldest := 0, -1
	for i, g := range s.groups {
		if g.otherJob {
			if count++; oldest < 0 {
				oldest = i
			}
		}
	}
	groups := slices.Clone(s.groups)
	if count >= maxOtherJobs {
		groups = slices.Delete(groups, oldest, oldest+1)
	}
	info := jobinfo.Job{Namespace: r.Namespace, Nodes: r.Nodes, NodeOf: r.NodeOf, Apps: r.Apps, Universe: r.Universe, HereNode: -1, FullUpTo: jobinfo.FullRanks}
	g := newGroup(s, Group{Name: r.Namespace, Namespace: r.Namespace, Size: len(r.NodeOf), Job: func(context.Context) (jobinfo.Job, error) { return info, nil }})
	g.otherJob = true
	s.groups = append(groups, g)
	return g
}

// addForeignData makes data that ranks of another job have committed visible to the ranks of this node.
func (g *group) addForeignData(r groupRecord) {
	received := make(map[int]byteRange, len(r.Data))
	for rank, data := range r.Data {
		if rank < g.Size {
			received[rank] = byteRange{0, data}
		}
	}
	g.addFenceData(received)
}
