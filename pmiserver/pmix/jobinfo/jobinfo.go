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
	Of        []int       // the node of each rank, as an index
	Apps      []int       // ranks of each section; sections follow each other
	Universe  int         // slots of the job
	Parent    bfrops.Proc // who spawned the group; no namespace: the command line did

	MapBy, RankBy, BindTo string // what was said of mapping, ranking and binding, if anything

	Here    int             // the node it is seen from, as an index; -1: none of these
	Dir     string          // the session directory there; none: there is none
	Crowded bool            // more ranks of the job there than CPUs
	Bound   map[int]Binding // ranks that are bound there
	Full    int             // up to so many ranks all are told of all (PMIX-49)
}

// FullRanks is up to how many ranks of a group all are told of all. Of larger ones a rank is
// told of its own node; what else it wants to know it asks for.
const FullRanks = 256

// A Node is one that has ranks of a group.
type Node struct {
	Name    string
	Earlier int // ranks that groups of the job with lower numbers have had there
}

// A Binding is the CPUs of a rank.
type Binding struct {
	CPUs     string // 0-3, as the kernel numbers them
	Locality string // SK0:L30:L20:L10:CR0:HT0:NM0; none if it is not known
}

// A View answers what ranks ask of one group.
type View struct {
	g     Job
	peers [][]int // ranks on each node, ascending
	index []int   // of each rank among those of its node
	first []int   // rank of each section
}

// New returns the view of a group, which may not change any more. It is made once for each
// group and node.
func New(g Job) *View {
	v := &View{g: g, index: make([]int, len(g.Of)), peers: make([][]int, len(g.Nodes))}
	for rank, node := range g.Of {
		v.index[rank] = len(v.peers[node])
		v.peers[node] = append(v.peers[node], rank)
	}
	first := 0
	for _, ranks := range g.Apps {
		v.first = append(v.first, first)
		first += ranks
	}
	return v
}

// pairs are packs of one KVAL each.
type pairs []byte

func (p *pairs) put(key string, value bfrops.Value) { *p = bfrops.AppendPair(*p, key, value) }
func (p *pairs) text(key, text string)              { p.put(key, bfrops.TextOf(text)) }
func (p *pairs) number(key string, n int)           { p.put(key, bfrops.Uint32Of(uint32(n))) }

// Job returns what a rank is told when it introduces itself: the job level, and of the nodes
// and ranks all, or those of this node (PMIX-49).
func (v *View) Job() []byte {
	var p pairs
	v.general(&p)
	v.sections(&p)
	v.directories(&p)
	if v.g.Here >= 0 {
		v.local(&p)
	}
	nodes := v.shown()
	for _, node := range nodes {
		p.put("pmix.node.arr", v.node(node))
	}
	for _, node := range nodes {
		for _, rank := range v.peers[node] {
			p.put("pmix.pblob", bfrops.BlobOf(bfrops.AppendUint32(nil, uint32(rank)), v.Rank(rank)))
		}
	}
	return p
}

// shown returns the nodes of which a rank is told, with their ranks.
func (v *View) shown() (nodes []int) {
	for node := range v.g.Nodes {
		if len(v.g.Of) <= v.g.Full || node == v.g.Here {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func (v *View) general(p *pairs) {
	p.text("pmix.jobid", v.g.Namespace)
	p.text("pmix.srv.nspace", v.g.Server)
	p.number("pmix.srv.rank", 0)
	p.number("pmix.job.size", len(v.g.Of))
	p.number("pmix.max.size", len(v.g.Of))
	p.number("pmix.univ.size", v.g.Universe)
	p.put("pmix.ssn.arr", bfrops.InfosOf(number("pmix.session.id", 1), number("pmix.univ.size", v.g.Universe)))
	p.number("pmix.num.nodes", len(v.g.Nodes))
	p.number("pmix.job.napps", len(v.g.Apps))
	p.number("pmix.offset", 0)
	if names := v.names(); len(names) <= maxNames {
		p.text("pmix.nlist", names)
	}
	if v.g.Parent.Namespace != "" {
		p.put("pmix.parent", bfrops.ProcOf(v.g.Parent))
	}
	for _, said := range [...]struct{ key, text string }{
		{"pmix.mapby", v.g.MapBy}, {"pmix.rankby", v.g.RankBy}, {"pmix.bindto", v.g.BindTo},
	} {
		if said.text != "" {
			p.text(said.key, said.text)
		}
	}
}

// maxNames is how many bytes the list of all nodes has at most; a longer one is not sent.
const maxNames = 64 << 10

func (v *View) names() string {
	names := make([]string, len(v.g.Nodes))
	for i, node := range v.g.Nodes {
		names[i] = node.Name
	}
	return strings.Join(names, ",")
}

// sections are told where there are several, in Open MPI's own words.
func (v *View) sections(p *pairs) {
	if len(v.g.Apps) > 1 {
		p.text("OMPI_APP_SIZES", join(v.g.Apps, " "))
		p.text("OMPI_FIRST_RANKS", join(v.first, " "))
	}
}

// directories say where ranks put their files, and that we remove them.
func (v *View) directories(p *pairs) {
	if v.g.Dir == "" {
		return
	}
	p.text("pmix.tmpdir", v.g.Dir)
	p.text("pmix.nsdir", v.dir())
	p.text("pmix.pdir", v.dir())
	p.put("pmix.tdir.rmclean", bfrops.FlagOf(true))
}

func (v *View) dir() string { return v.g.Dir + "/" + v.g.Namespace }

// local says who is on this node.
func (v *View) local(p *pairs) {
	peers := v.peers[v.g.Here]
	p.number("pmix.local.size", len(peers))
	p.text("pmix.lpeers", join(peers, ","))
	p.put("pmix.lldr", bfrops.RankOf(bfrops.Rank(peers[0])))
	if v.g.Crowded {
		p.put("pmix.ndosub", bfrops.FlagOf(true))
	}
}

// node is the node level: pmix.node.arr.
func (v *View) node(node int) bfrops.Value {
	peers := v.peers[node]
	return bfrops.InfosOf(
		text("pmix.hname", v.g.Nodes[node].Name),
		number("pmix.nodeid", node),
		number("pmix.node.size", v.g.Nodes[node].Earlier+len(peers)),
		text("pmix.lpeers", join(peers, ",")),
		bfrops.Info{Key: "pmix.lldr", Value: bfrops.RankOf(bfrops.Rank(peers[0]))},
		number("pmix.local.size", len(peers)))
}

func text(key, text string) bfrops.Info { return bfrops.Info{Key: key, Value: bfrops.TextOf(text)} }

func number(key string, n int) bfrops.Info {
	return bfrops.Info{Key: key, Value: bfrops.Uint32Of(uint32(n))}
}

// Rank returns what is known of a rank of the group, 0 to Size - 1 (pmix-wire.md 7.2).
func (v *View) Rank(rank int) []byte {
	var p pairs
	node, app := v.g.Of[rank], v.section(rank)
	p.put("pmix.grank", bfrops.RankOf(bfrops.Rank(rank)))
	p.put("pmix.apprank", bfrops.RankOf(bfrops.Rank(rank-v.first[app])))
	p.put("pmix.lrank", bfrops.Uint16Of(uint16(v.index[rank])))
	p.put("pmix.nrank", bfrops.Uint16Of(uint16(v.g.Nodes[node].Earlier+v.index[rank])))
	p.number("pmix.nodeid", node)
	p.text("pmix.hname", v.g.Nodes[node].Name)
	p.number("pmix.appnum", app)
	if v.g.Dir != "" {
		p.text("pmix.pdir", v.dir()+"/"+strconv.Itoa(rank))
	}
	if bound, ok := v.g.Bound[rank]; ok {
		p.text("pmix.cpuset", bound.CPUs)
		if bound.Locality != "" {
			p.text("pmix.locstr", bound.Locality)
		}
	}
	return p
}

// section returns the section of a rank: the last one that begins at it or before.
func (v *View) section(rank int) int {
	after, _ := slices.BinarySearch(v.first, rank+1)
	return after - 1
}

// Has reports whether a key is among pairs, at their own level.
func Has(pairs []byte, key string) bool {
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

func join(numbers []int, separator string) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, separator)
}
