// Package jobinfo is what a PMIx server tells a rank of its job (pmix-wire.md 7): how many ranks
// there are, where they are, and who of them is near. All of it follows from the placement of a
// group; nothing here knows which rank asks.
package jobinfo

import (
	"slices"
	"strconv"
	"strings"

	"remshell/pmiserver/pmix/bfrops"
)

// A Job is what is known of the ranks of one MPI_COMM_WORLD, seen from one node.
type Job struct {
	Namespace string
	Server    string      // the namespace of the server
	Nodes     []Node      // with at least one rank each
	NodeOf    []int       // the node of each rank, as an index
	Apps      []int       // ranks of each section; sections follow each other
	Universe  int         // slots of the job
	Parent    bfrops.Proc // who spawned the group; no namespace: the command line did

	MapBy, RankBy, BindTo string // what was said of mapping, ranking and binding, if anything

	HereNode       int             // the node it is seen from, as an index; -1: none of these
	Dir            string          // the session directory there; none: there is none
	Oversubscribed bool            // more ranks of the job there than CPUs
	Bound          map[int]Binding // ranks that are bound there
	FullUpTo       int             // up to so many ranks all are told of all (PMIX-49)
}

// FullRanks is up to how many ranks of a group all are told of all. Of larger ones a rank is
// told of its own node; what else it wants to know it asks for.
const FullRanks = 256

// A Node is one that has ranks of a group.
type Node struct {
	Name         string
	EarlierRanks int // ranks that groups of the job with lower numbers have had there
}

// A Binding is the CPUs of a rank.
type Binding struct {
	CPUs     string // 0-3, as the kernel numbers them
	Locality string // SK0:L30:L20:L10:CR0:HT0:NM0; none if it is not known
}

// A View answers what ranks ask of one group.
type View struct {
	job        Job
	peers      [][]int // ranks on each node, ascending
	localIndex []int   // of each rank among those of its node
	firstRanks []int   // rank of each section
}

// New returns the view of a group, which may not change any more. It is made once for each
// group and node.
func New(g Job) *View {
	v := &View{job: g, localIndex: make([]int, len(g.NodeOf)), peers: make([][]int, len(g.Nodes))}
	for rank, node := range g.NodeOf {
		v.localIndex[rank] = len(v.peers[node])
		v.peers[node] = append(v.peers[node], rank)
	}
	first := 0
	for _, ranks := range g.Apps {
		v.firstRanks = append(v.firstRanks, first)
		first += ranks
	}
	return v
}

// pairs are packs of one KVAL each.
type pairs []byte

func (p *pairs) putValue(key string, value bfrops.Value) { *p = bfrops.AppendPair(*p, key, value) }
func (p *pairs) putText(key, text string)                { p.putValue(key, bfrops.TextOf(text)) }
func (p *pairs) putNumber(key string, n int)             { p.putValue(key, bfrops.Uint32Of(uint32(n))) }

// Job returns what a rank is told when it introduces itself: the job level, and of the nodes
// and ranks all, or those of this node (PMIX-49).
func (v *View) Job() []byte {
	var p pairs
	v.putGeneral(&p)
	v.putApps(&p)
	v.putDirs(&p)
	if v.job.HereNode >= 0 {
		v.putLocal(&p)
	}
	nodes := v.shownNodes()
	for _, node := range nodes {
		p.putValue("pmix.node.arr", v.nodeArray(node))
	}
	for _, node := range nodes {
		for _, rank := range v.peers[node] {
			p.putValue("pmix.pblob", bfrops.BlobOf(bfrops.AppendUint32(nil, uint32(rank)), v.Rank(rank)))
		}
	}
	return p
}

// shownNodes returns the nodes of which a rank is told, with their ranks.
func (v *View) shownNodes() (nodes []int) {
	for node := range v.job.Nodes {
		if len(v.job.NodeOf) <= v.job.FullUpTo || node == v.job.HereNode {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func (v *View) putGeneral(p *pairs) {
	p.putText("pmix.jobid", v.job.Namespace)
	p.putText("pmix.srv.nspace", v.job.Server)
	p.putNumber("pmix.srv.rank", 0)
	p.putNumber("pmix.job.size", len(v.job.NodeOf))
	p.putNumber("pmix.max.size", len(v.job.NodeOf))
	p.putNumber("pmix.univ.size", v.job.Universe)
	p.putValue("pmix.ssn.arr", bfrops.InfosOf(numberInfo("pmix.session.id", 1), numberInfo("pmix.univ.size", v.job.Universe)))
	p.putNumber("pmix.num.nodes", len(v.job.Nodes))
	p.putNumber("pmix.job.napps", len(v.job.Apps))
	p.putNumber("pmix.offset", 0)
	if names := v.nodeNames(); len(names) <= maxNodeNamesBytes {
		p.putText("pmix.nlist", names)
	}
	if v.job.Parent.Namespace != "" {
		p.putValue("pmix.parent", bfrops.ProcOf(v.job.Parent))
	}
	for _, said := range [...]struct{ key, text string }{
		{"pmix.mapby", v.job.MapBy}, {"pmix.rankby", v.job.RankBy}, {"pmix.bindto", v.job.BindTo},
	} {
		if said.text != "" {
			p.putText(said.key, said.text)
		}
	}
}

// maxNodeNamesBytes is how many bytes the list of all nodes has at most; a longer one is not sent.
const maxNodeNamesBytes = 64 << 10

func (v *View) nodeNames() string {
	names := make([]string, len(v.job.Nodes))
	for i, node := range v.job.Nodes {
		names[i] = node.Name
	}
	return strings.Join(names, ",")
}

// putApps are told where there are several, in Open MPI's own words.
func (v *View) putApps(p *pairs) {
	if len(v.job.Apps) > 1 {
		p.putText("OMPI_APP_SIZES", joinInts(v.job.Apps, " "))
		p.putText("OMPI_FIRST_RANKS", joinInts(v.firstRanks, " "))
	}
}

// putDirs say where ranks put their files, and that we remove them.
func (v *View) putDirs(p *pairs) {
	if v.job.Dir == "" {
		return
	}
	p.putText("pmix.tmpdir", v.job.Dir)
	p.putText("pmix.nsdir", v.namespaceDir())
	p.putText("pmix.pdir", v.namespaceDir())
	p.putValue("pmix.tdir.rmclean", bfrops.FlagOf(true))
}

func (v *View) namespaceDir() string { return v.job.Dir + "/" + v.job.Namespace }

// putLocal says who is on this node.
func (v *View) putLocal(p *pairs) {
	peers := v.peers[v.job.HereNode]
	p.putNumber("pmix.local.size", len(peers))
	p.putText("pmix.lpeers", joinInts(peers, ","))
	p.putValue("pmix.lldr", bfrops.RankOf(bfrops.Rank(peers[0])))
	if v.job.Oversubscribed {
		p.putValue("pmix.ndosub", bfrops.FlagOf(true))
	}
}

// nodeArray is the node level: pmix.node.arr.
func (v *View) nodeArray(node int) bfrops.Value {
	peers := v.peers[node]
	return bfrops.InfosOf(
		textInfo("pmix.hname", v.job.Nodes[node].Name),
		numberInfo("pmix.nodeid", node),
		numberInfo("pmix.node.size", v.job.Nodes[node].EarlierRanks+len(peers)),
		textInfo("pmix.lpeers", joinInts(peers, ",")),
		bfrops.Info{Key: "pmix.lldr", Value: bfrops.RankOf(bfrops.Rank(peers[0]))},
		numberInfo("pmix.local.size", len(peers)))
}

func textInfo(key, text string) bfrops.Info { return bfrops.Info{Key: key, Value: bfrops.TextOf(text)} }

func numberInfo(key string, n int) bfrops.Info {
	return bfrops.Info{Key: key, Value: bfrops.Uint32Of(uint32(n))}
}

// Rank returns what is known of a rank of the group, 0 to Size - 1 (pmix-wire.md 7.2).
func (v *View) Rank(rank int) []byte {
	var p pairs
	node, app := v.job.NodeOf[rank], v.appOf(rank)
	p.putValue("pmix.grank", bfrops.RankOf(bfrops.Rank(rank)))
	p.putValue("pmix.apprank", bfrops.RankOf(bfrops.Rank(rank-v.firstRanks[app])))
	p.putValue("pmix.lrank", bfrops.Uint16Of(uint16(v.localIndex[rank])))
	p.putValue("pmix.nrank", bfrops.Uint16Of(uint16(v.job.Nodes[node].EarlierRanks+v.localIndex[rank])))
	p.putNumber("pmix.nodeid", node)
	p.putText("pmix.hname", v.job.Nodes[node].Name)
	p.putNumber("pmix.appnum", app)
	if v.job.Dir != "" {
		p.putText("pmix.pdir", v.namespaceDir()+"/"+strconv.Itoa(rank))
	}
	if bound, ok := v.job.Bound[rank]; ok {
		p.putText("pmix.cpuset", bound.CPUs)
		if bound.Locality != "" {
			p.putText("pmix.locstr", bound.Locality)
		}
	}
	return p
}

// appOf returns the section of a rank: the last one that begins at it or before.
func (v *View) appOf(rank int) int {
	after, _ := slices.BinarySearch(v.firstRanks, rank+1)
	return after - 1
}

// HasKey reports whether a key is among pairs, at their own level.
func HasKey(pairs []byte, key string) bool {
	r := bfrops.NewReader(pairs)
	for r.More() {
		if r.Pair().Key == key {
			return true
		}
	}
	return false
}

// Keys lists the keys of pairs, in their order.
func Keys(pairs []byte) (keys []string) {
	r := bfrops.NewReader(pairs)
	for r.More() {
		keys = append(keys, r.Pair().Key)
	}
	return keys
}

func joinInts(numbers []int, separator string) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, separator)
}
