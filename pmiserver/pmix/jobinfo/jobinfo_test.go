package jobinfo_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/jobinfo"
	"remshell/test/pmixtest"
)

// read decodes pairs to words, KEY TYPE VALUE, in order. Elements of an array or a blob of pairs have
// its name in front.
func read(t *testing.T, pairs []byte) (words []string) {
	t.Helper()
	r := bfrops.NewReader(pairs)
	for r.More() {
		p := r.Pair()
		words = append(words, value(t, p.Key, p.Value)...)
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return words
}

func value(t *testing.T, key string, v bfrops.Value) (words []string) {
	t.Helper()
	if blob, ok := v.Blob(); ok {
		rank := bfrops.NewReader(blob).Rank()
		for _, word := range read(t, blob[8:]) {
			words = append(words, fmt.Sprintf("%s %d %s", key, rank, word))
		}
		return words
	}
	if infos, ok := v.Infos(); ok {
		for _, i := range infos {
			words = append(words, key+" "+value(t, i.Key, i.Value)[0])
		}
		return words
	}
	if text, ok := v.Text(); ok {
		return []string{fmt.Sprintf("%s %d %s", key, v.Type, text)}
	}
	if p, ok := v.Proc(); ok {
		return []string{fmt.Sprintf("%s %d %v", key, v.Type, p)}
	}
	n, ok := v.Number()
	if !ok {
		t.Fatalf("%s of type %d", key, v.Type)
	}
	return []string{fmt.Sprintf("%s %d %d", key, v.Type, n)}
}

// without leaves out the words that contain one of the keys.
func without(words []string, keys ...string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(" "+word, " "+key+" ") })
	})
}

// Our job info has the contents that clients of 4.0 to 7.0 received and accepted.
func TestRecordedJobInfo(t *testing.T) {
	checked := 0
	for _, c := range pmixtest.Read(t).Conversations {
		for _, m := range c.Messages {
			if m.Kind != "reply to REQ" {
				continue
			}
			checked++
			r := bfrops.NewReader(m.Body())
			namespace := r.Text()
			recorded := read(t, m.Body()[8+len(namespace)+1:])
			ours := read(t, jobinfo.New(groupOf(t, namespace, recorded)).Job())
			// We use mpirun's types of pmix.srv.rank and the two others, and no rank is bound.
			ours, recorded = without(ours, "pmix.srv.rank", "pmix.ssn.arr", "pmix.lldr"), without(recorded, "pmix.srv.rank", "pmix.lldr", "pmix.locstr", "pmix.cpuset")
			lacks(t, c.ID+" "+m.Rank+": our answer", ours, recorded)
			lacks(t, c.ID+" "+m.Rank+": the recorded answer", recorded, ours)
		}
	}
	if checked != 10 {
		t.Errorf("%d answers to REQ", checked)
	}
}

// groupOf makes the group that a recorded reply describes, all on one node.
func groupOf(t *testing.T, namespace string, recorded []string) jobinfo.Job {
	word := func(key string) (text string) {
		for _, w := range recorded {
			if rest, found := strings.CutPrefix(w, key+" "); found {
				_, text, _ = strings.Cut(rest, " ")
			}
		}
		return text
	}
	var size, universe int
	if _, err := fmt.Sscan(word("pmix.job.size")+" "+word("pmix.univ.size"), &size, &universe); err != nil {
		t.Fatal(err)
	}
	g := jobinfo.Job{
		Namespace: namespace, Server: "srv", Nodes: []jobinfo.Node{{Name: "vm"}}, NodeOf: make([]int, size),
		Apps: []int{size}, Universe: universe, Dir: word("pmix.tmpdir"), FullUpTo: jobinfo.FullRanks,
	}
	if parent := word("pmix.parent"); parent != "" {
		g.Parent.Namespace = strings.TrimSuffix(namespace, "2") + "1"
	}
	return g
}

// mpirun of Debian 12 sends the same job info for the same job, except for keys that only it has.
func TestMpirunsJobInfo(t *testing.T) {
	body := []byte(pmixtest.Read(t).Info.Hex)
	r := bfrops.NewReader(body)
	namespace := r.Text()
	recorded := read(t, body[8+len(namespace)+1:])
	ours := read(t, jobinfo.New(jobinfo.Job{
		Namespace: "[17507,1]", Server: "[17507,0]", Nodes: []jobinfo.Node{{Name: "vm"}}, NodeOf: []int{0, 0}, Apps: []int{2}, Universe: 2,
		MapBy: "BYCORE:OVERSUBSCRIBE", RankBy: "SLOT", BindTo: "CORE:IF-SUPPORTED:OVERLOAD-ALLOWED", FullUpTo: jobinfo.FullRanks,
		Bound: map[int]jobinfo.Binding{0: {"0", "SK0:L30:L20:L10:CR0:HT0:NM0"}, 1: {"1", "SK0:L30:L21:L11:CR1:HT1:NM0"}},
	}).Job())
	lacks(t, "our answer", ours, without(recorded, "pmix.toposig", "pmix.bfrops.mod", "pmix.pmem", "pmix.ssn.arr pmix.session.id"))
}

// lacks reports words that are missing, in any order.
func lacks(t *testing.T, what string, words, wanted []string) {
	t.Helper()
	left := slices.Clone(words)
	for _, word := range wanted {
		i := slices.Index(left, word)
		if i < 0 {
			t.Errorf("%s lacks %s", what, word)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
}

// Two nodes, two app contexts, spawned by another group of the job, bound: the job info of a rank on
// node b, and the part of it that is left if the group is large.
func TestJobInfo(t *testing.T) {
	g := jobinfo.Job{
		Namespace: "rs-2", Server: "srv-1", Nodes: []jobinfo.Node{{Name: "a"}, {Name: "b", EarlierRanks: 3}}, NodeOf: []int{1, 0, 1}, Apps: []int{1, 2},
		Universe: 8, Parent: bfrops.Proc{Namespace: "rs-1", Rank: 2}, HereNode: 1, Dir: "/tmp/rs-x", Oversubscribed: true,
		Bound: map[int]jobinfo.Binding{2: {CPUs: "0-3"}}, FullUpTo: 3,
	}
	job := []string{
		"pmix.jobid 3 rs-2", "pmix.srv.nspace 3 srv-1", "pmix.srv.rank 14 0", "pmix.job.size 14 3", "pmix.max.size 14 3", "pmix.univ.size 14 8",
		"pmix.ssn.arr pmix.session.id 14 1", "pmix.ssn.arr pmix.univ.size 14 8", "pmix.num.nodes 14 2", "pmix.job.napps 14 2", "pmix.offset 14 0",
		"pmix.nlist 3 a,b", "pmix.parent 22 {rs-1 2}", "OMPI_APP_SIZES 3 1 2", "OMPI_FIRST_RANKS 3 0 1",
		"pmix.tmpdir 3 /tmp/rs-x", "pmix.nsdir 3 /tmp/rs-x/rs-2", "pmix.pdir 3 /tmp/rs-x/rs-2", "pmix.tdir.rmclean 1 1",
		"pmix.local.size 14 2", "pmix.lpeers 3 0,2", "pmix.lldr 40 0", "pmix.ndosub 1 1",
	}
	of := func(array string, words ...string) (all []string) {
		for _, word := range words {
			all = append(all, array+" "+word)
		}
		return all
	}
	a := of("pmix.node.arr", "pmix.hname 3 a", "pmix.nodeid 14 0", "pmix.node.size 14 1", "pmix.lpeers 3 1", "pmix.lldr 40 1", "pmix.local.size 14 1")
	b := of("pmix.node.arr", "pmix.hname 3 b", "pmix.nodeid 14 1", "pmix.node.size 14 5", "pmix.lpeers 3 0,2", "pmix.lldr 40 0", "pmix.local.size 14 2")
	rank0 := of("pmix.pblob 0", "pmix.grank 40 0", "pmix.apprank 40 0", "pmix.lrank 13 0", "pmix.nrank 13 3", "pmix.nodeid 14 1", "pmix.hname 3 b", "pmix.appnum 14 0", "pmix.pdir 3 /tmp/rs-x/rs-2/0")
	rank1 := of("pmix.pblob 1", "pmix.grank 40 1", "pmix.apprank 40 0", "pmix.lrank 13 0", "pmix.nrank 13 0", "pmix.nodeid 14 0", "pmix.hname 3 a", "pmix.appnum 14 1", "pmix.pdir 3 /tmp/rs-x/rs-2/1")
	rank2 := of("pmix.pblob 2", "pmix.grank 40 2", "pmix.apprank 40 1", "pmix.lrank 13 1", "pmix.nrank 13 4", "pmix.nodeid 14 1", "pmix.hname 3 b", "pmix.appnum 14 1", "pmix.pdir 3 /tmp/rs-x/rs-2/2", "pmix.cpuset 3 0-3")

	told(t, "full", jobinfo.New(g).Job(), slices.Concat(job, a, b, rank0, rank1, rank2))
	g.FullUpTo = 2
	told(t, "lean", jobinfo.New(g).Job(), slices.Concat(job, b, rank0, rank2))
	g.Dir, g.Oversubscribed, g.Parent, g.Apps = "", false, bfrops.Proc{}, []int{3}
	told(t, "without a directory", jobinfo.New(g).Rank(1), []string{"pmix.grank 40 1", "pmix.apprank 40 1", "pmix.lrank 13 0", "pmix.nrank 13 0", "pmix.nodeid 14 0", "pmix.hname 3 a", "pmix.appnum 14 0"})
	g.HereNode = -1
	told(t, "from elsewhere", jobinfo.New(g).Job(), slices.Concat([]string{"pmix.job.napps 14 1"}, slices.DeleteFunc(slices.Clone(job[:12]), func(word string) bool { return word == "pmix.job.napps 14 2" })))
}

func told(t *testing.T, what string, pairs []byte, wanted []string) {
	t.Helper()
	got := read(t, pairs)
	lacks(t, what+": what is told", got, wanted)
	lacks(t, what+": the test", wanted, got)
}

// A list of node names above the limit is left out; one at the limit is sent.
func TestLongListOfNames(t *testing.T) {
	for length, want := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		g := jobinfo.Job{Nodes: []jobinfo.Node{{Name: strings.Repeat("n", length)}}, NodeOf: []int{0}, Apps: []int{1}}
		if got := jobinfo.HasKey(jobinfo.New(g).Job(), "pmix.nlist"); got != want {
			t.Errorf("names of %d bytes are sent: %v", length, got)
		}
	}
}

func TestHas(t *testing.T) {
	job := jobinfo.New(jobinfo.Job{Nodes: []jobinfo.Node{{Name: "a"}}, NodeOf: []int{0}, Apps: []int{1}, FullUpTo: 1}).Job()
	for key, want := range map[string]bool{"pmix.job.size": true, "pmix.node.arr": true, "pmix.grank": false, "": false} {
		if got := jobinfo.HasKey(job, key); got != want {
			t.Errorf("%q is there: %v", key, got)
		}
	}
}

// BenchmarkLeanJob measures the job info of a rank in a job of 1,000 nodes with 64 ranks each.
func BenchmarkLeanJob(b *testing.B) {
	g := jobinfo.Job{Namespace: "rs-0123456789abcdef-1", Apps: []int{64_000}, HereNode: 7, FullUpTo: jobinfo.FullRanks}
	for node := range 1_000 {
		g.Nodes = append(g.Nodes, jobinfo.Node{Name: fmt.Sprintf("node%04d", node)})
		for range 64 {
			g.NodeOf = append(g.NodeOf, node)
		}
	}
	v := jobinfo.New(g)
	for b.Loop() {
		v.Job()
	}
}
