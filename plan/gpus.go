package plan

import (
	"fmt"
	"slices"

	"remshell/gpu"
	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
	"remshell/text"
)

// This file gives ranks their GPUs (-gpus-per-proc). A GPU belongs to one rank of one job:
// how many there are bounds the ranks of a node as its slots do, but sharing them is never
// welcome, --overbook or not. Ranks and GPUs come together in one of two ways:
//
//	the plan chooses CPUs   each rank its GPUs, in their order; then CPUs near those
//	CPUs are chosen already each rank CPUs, by layout, rank file or map; then GPUs near those

// offered are the GPUs of a candidate that nobody has.
func (s *candidate) offered() []gpu.GPU { return gpu.Without(gpu.Offered(s.GPUs), s.BusyGPUs) }

// wantsGPUs is the check whether a node has GPUs enough for a rank at all.
var wantsGPUs = check{"no-gpu", func(s *candidate, w *requirement) string {
	switch has := len(gpu.Offered(s.GPUs)); {
	case w.gpus <= has:
		return ""
	case has > 0:
		return fmt.Sprintf("it has %s, a process needs %d", text.Count(has, "GPU"), w.gpus)
	case s.Barred > 0:
		return fmt.Sprintf("none of its %s may be used", text.Count(s.Barred, "GPU"))
	}
	return "it has no GPU"
}}

// findsGPUs is the check whether so many of them are free.
var findsGPUs = check{"gpus-taken", func(s *candidate, w *requirement) string {
	if w.gpus <= len(s.gpus) {
		return ""
	}
	text := fmt.Sprintf("%d of %s free", len(s.gpus), text.Count(len(gpu.Offered(s.GPUs)), "GPU"))
	if w.gpus > 1 {
		text += fmt.Sprintf(", a process needs %d", w.gpus)
	}
	return text
}}

// wantedGPUs is the number of GPUs of a rank.
func wantedGPUs(app job.App) int { return max(0, app.GPUs) }

// option is -gpus-per-proc as it was given, more or less.
func option(n int) string { return fmt.Sprint("-gpus-per-proc ", n) }

// gpuRoom is how many ranks of an app the free GPUs of its candidates are enough for.
func (s *placement) gpuRoom(a *eligible) int {
	room := 0
	for _, i := range a.candidates {
		room += s.gpus[i] / a.app.GPUs
	}
	return room
}

// fewGPUs is the refusal where GPUs are too few for n ranks, whatever else there is; nil if
// they are not.
func (s *placement) fewGPUs(a *eligible, n int) *Error {
	if wantedGPUs(a.app) == 0 || s.gpuRoom(a) >= n {
		return nil
	}
	room, free, taken := s.gpuRoom(a), 0, 0
	for _, i := range a.candidates {
		free += s.gpus[i]
		taken += len(gpu.Offered(s.candidates[i].GPUs)) - len(s.candidates[i].gpus)
	}
	verb := "are"
	if free == 1 {
		verb = "is"
	}
	text := fmt.Sprintf("%s by %s: there %s %s for %s on %s (%s)", s.tooMany(a, n), option(a.app.GPUs), verb,
		text.Count(free, "free GPU"), text.Count(room, "rank"), text.Count(len(a.candidates), "node"), hostlist.Brief(a.names))
	way := "start fewer ranks or name more hosts"
	if taken > 0 {
		text += fmt.Sprintf("; %d in use", taken)
	} else {
		way += "; without the option ranks share what they see"
	}
	return &Error{Code: NoGPU, Text: text, Way: way, Wanted: n, Free: room}
}

// without is the refusal when GPUs are what all nodes lack that an app could use; nil if it
// is not.
func (s *placement) without(app job.App) *Error {
	var names []string
	why := ""
	w, among := wishOf(s.req, app), setOf(app.Hosts)
	for _, i := range s.listed() {
		n := &s.candidates[i]
		if !n.isOne(among) {
			continue
		}
		code, detail := dropped(n, &w)
		if code != wantsGPUs.code || why != "" && why != detail {
			return nil
		}
		why = detail
		names = append(names, n.Name)
	}
	if names == nil {
		return nil
	}
	way := "name hosts with GPUs"
	if why == "it has no GPU" {
		why = "no GPU there"
		way += ", or leave the option out"
	}
	return &Error{Code: NoGPU, Text: fmt.Sprintf("%s: %s: %s", hostlist.Brief(names), option(app.GPUs), why), Way: way, alone: true}
}

// listed are the candidates of the list, each once.
func (s *placement) listed() []int {
	if s.req.Turns == nil {
		return distinct(s.of, len(s.candidates))
	}
	var candidates []int
	for _, turn := range s.req.Turns {
		candidates = append(candidates, s.of[turn])
	}
	return distinct(candidates, len(s.candidates))
}

// bindNear binds the ranks of a node, some of which get GPUs, on CPUs near these. Who gets no
// GPU, or finds no room near his, has the lowest slots that are left.
func (s *placement) bindNear(n *candidate, ranks []job.RankPlan, slots []pin.Unit, widths []int) {
	left, gpus := pin.Free(slots, n.busy), slices.Clone(n.gpus)
	near := func(numa int) (mine []int) {
		for _, slot := range left {
			if numa >= 0 && slots[slot].NUMA == numa {
				mine = append(mine, slot)
			}
		}
		return mine
	}
	sit := func(i int, from []int) {
		mine := slices.Sorted(slices.Values(from[:widths[i]]))
		left = slices.DeleteFunc(left, func(slot int) bool { return slices.Contains(mine, slot) })
		s.give(n, &ranks[i], pin.NewSeat(slots, mine))
	}
	for i := range ranks {
		r, width := &ranks[i], widths[i]
		if want := wantedGPUs(s.req.Apps[r.App]); want > 0 {
			r.GPUs = gpu.Pick(gpus, want, func(numa int) bool { return len(near(numa)) >= width })
			gpus = gpu.Without(gpus, gpu.Addresses(r.GPUs))
			if beside := besides(r.GPUs, near); len(beside) >= width {
				sit(i, beside)
			}
		}
	}
	for i := range ranks {
		r := &ranks[i]
		if r.Held == nil {
			some := besides(r.GPUs, near)
			rest := slices.DeleteFunc(slices.Clone(left), func(slot int) bool { return slices.Contains(some, slot) })
			sit(i, append(some, rest...))
		}
	}
}

// besides lists the slots near any of some GPUs, those near the first one first.
func besides(gpus []gpu.GPU, near func(numa int) []int) (slots []int) {
	var seen []int
	for _, g := range gpus {
		if !slices.Contains(seen, g.NUMA) {
			seen = append(seen, g.NUMA)
			slots = append(slots, near(g.NUMA)...)
		}
	}
	return slots
}

// equip gives the ranks of a node, who have their CPUs, GPUs near these.
func (s *placement) equip(n *candidate, ranks []job.RankPlan) {
	if s.demandGPUs(ranks) == 0 {
		return
	}
	var wants []gpu.Want
	of := make(map[int]int) // memory node, by CPU
	for _, c := range n.Topology.Cores {
		for _, cpu := range c.CPUs {
			of[cpu] = c.NUMA
		}
	}
	for _, r := range ranks {
		w := gpu.Want{N: wantedGPUs(s.req.Apps[r.App])}
		for _, cpu := range r.Held {
			if numa, known := of[cpu]; known && numa >= 0 && !slices.Contains(w.NUMA, numa) {
				w.NUMA = append(w.NUMA, numa)
			}
		}
		wants = append(wants, w)
	}
	for i, gpus := range gpu.Near(n.gpus, wants) {
		ranks[i].GPUs = gpus
	}
}

// demandGPUs is how many GPUs the ranks of a node get.
func (s *placement) demandGPUs(ranks []job.RankPlan) int {
	total := 0
	for _, r := range ranks {
		total += wantedGPUs(s.req.Apps[r.App])
	}
	return total
}
