// Package jobinfo encodes the job info that a PMIx server sends to a rank (pmix-wire.md 7). The job info says how
// many ranks there are, where they run, and which ranks share a node. All of it follows from the placement of a
// group, and is the same for all ranks of a node.
package jobinfo

import (
	"slices"
	"strconv"
	"strings"

	"remshell/pmiserver/pmix/bfrops"
)

// A Job describes the ranks of one MPI_COMM_WORLD (a group), seen from one node.
type Job struct {
	Namespace string
	Server    string      // namespace of the server
	Nodes     []Node      // with at least one rank each
	NodeOf    []int       // index in Nodes, by rank
	Apps      []int       // number of ranks of each app context, in the order of ranks
	Universe  int         // number of slots of the job
	Parent    bfrops.Proc // process that spawned the group; no namespace if the command line did

	MapBy, RankBy, BindTo string // requested mapping, ranking and binding; empty if none

	HereNode       int             // index of this node in Nodes; -1 if it has no ranks of the group
	Dir            string          // session directory on this node; empty if there is none
	Oversubscribed bool            // this node has more ranks of the job than CPUs
	Bound          map[int]Binding // by rank: the bound ranks of this node
	FullUpTo       int             // most ranks for which the job info describes all nodes (PMIX-49)
}

// FullRanks is the default of Job.FullUpTo, which is the size of the largest group whose ranks receive the
// complete job info. In a larger group, a rank receives only the part about its own node, and requests other
// parts when it needs them.
const FullRanks = 256

// A Node is a node with ranks of a group.
type Node struct {
	Name         string
	EarlierRanks int // ranks that earlier groups of the job have had on the node
}

// A Binding lists the CPUs to which a rank is bound.
type Binding struct {
	CPUs     string // such as 0-3, numbered as by the kernel
	Locality string // such as SK0:L30:L20:L10:CR0:HT0:NM0; empty if not known
}

// A View encodes the job info of one group for the ranks of one node.
type View struct {
	job        Job
	peers      [][]int // ranks on each node, ascending
	localIndex []int   // by rank: index among the ranks of its node
	firstRanks []int   // first rank of each app context
}

// New returns the View of a group. It is called once for each group and node. g must not be changed
// afterwards.
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

// pairs are encoded key-value pairs. Each pair is a pack with one element of type KVAL.
type pairs []byte

func (p *pairs) putValue(key string, value bfrops.Value) { *p = bfrops.AppendPair(*p, key, value) }
func (p *pairs) putText(key, text string)                { p.putValue(key, bfrops.TextOf(text)) }
func (p *pairs) putNumber(key string, n int)             { p.putValue(key, bfrops.Uint32Of(uint32(n))) }

// Job returns the job info that a rank receives when it initializes PMIx. It describes the job and all its
// nodes and ranks. For a group larger than FullUpTo, it describes only this node and its ranks (rule PMIX-49).
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

// shownNodes returns the indexes of the nodes whose ranks the job info lists. For a group larger than FullUpTo, this is
// only this node.
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
	for _, policy := range [...]struct{ key, text string }{
		{"pmix.mapby", v.job.MapBy}, {"pmix.rankby", v.job.RankBy}, {"pmix.bindto", v.job.BindTo},
	} {
		if policy.text != "" {
			p.putText(policy.key, policy.text)
		}
	}
}

// maxNodeNamesBytes is the maximum size in bytes of the list of node names. A longer list is left out of the
// job info.
const maxNodeNamesBytes = 64 << 10

func (v *View) nodeNames() string {
	names := make([]string, len(v.job.Nodes))
	for i, node := range v.job.Nodes {
		names[i] = node.Name
	}
	return strings.Join(names, ",")
}

// putApps adds the sizes of the app contexts, if there are several, under the keys that Open MPI
// uses.
func (v *View) putApps(p *pairs) {
	if len(v.job.Apps) > 1 {
		p.putText("OMPI_APP_SIZES", joinInts(v.job.Apps, " "))
		p.putText("OMPI_FIRST_RANKS", joinInts(v.firstRanks, " "))
	}
}

// putDirs adds the session directories, and the information that mpiexec will remove them.
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

// putLocal adds the list of ranks on this node.
func (v *View) putLocal(p *pairs) {
	peers := v.peers[v.job.HereNode]
	p.putNumber("pmix.local.size", len(peers))
	p.putText("pmix.lpeers", joinInts(peers, ","))
	p.putValue("pmix.lldr", bfrops.RankOf(bfrops.Rank(peers[0])))
	if v.job.Oversubscribed {
		p.putValue("pmix.ndosub", bfrops.FlagOf(true))
	}
}

// nodeArray returns the description of a node (pmix.node.arr).
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

// Rank returns the job info about one rank of the group, from 0 to Size - 1 (pmix-wire.md 7.2).
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

// appOf returns the index of the app context of a rank.
func (v *View) appOf(rank int) int {
	after, _ := slices.BinarySearch(v.firstRanks, rank+1)
	return after - 1
}

// HasKey reports whether encoded pairs contain a key. It does not search values that are arrays.
func HasKey(pairs []byte, key string) bool {
	r := bfrops.NewReader(pairs)
	for r.More() {
		if r.Pair().Key == key {
			return true
		}
	}
	return false
}

// Keys returns the keys of encoded pairs, in the order of the pairs.
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
