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

// freeGPUs are the GPUs of a candidate that nobody has.
func (s *candidate) freeGPUs() []gpu.GPU {
	return gpu.WithoutAddresses(gpu.OfBestVendor(s.GPUs), s.BusyGPUs)
}

// gpuCheck is the check whether a node has GPUs enough for a rank at all.
var gpuCheck = nodeCheck{"no-gpu", func(s *candidate, w *requirement) string {
	switch has := len(gpu.OfBestVendor(s.GPUs)); {
	case w.gpusPerRank <= has:
		return ""
	case has > 0:
		return fmt.Sprintf("it has %s, a process needs %d", text.Count(has, "GPU"), w.gpusPerRank)
	case s.WithheldGPUs > 0:
		return fmt.Sprintf("none of its %s may be used", text.Count(s.WithheldGPUs, "GPU"))
	}
	return "it has no GPU"
}}

// freeGPUCheck is the check whether so many of them are free.
var freeGPUCheck = nodeCheck{"gpus-taken", func(s *candidate, w *requirement) string {
	if w.gpusPerRank <= len(s.gpus) {
		return ""
	}
	text := fmt.Sprintf("%d of %s free", len(s.gpus), text.Count(len(gpu.OfBestVendor(s.GPUs)), "GPU"))
	if w.gpusPerRank > 1 {
		text += fmt.Sprintf(", a process needs %d", w.gpusPerRank)
	}
	return text
}}

// gpusPerRank is the number of GPUs of a rank.
func gpusPerRank(app job.App) int { return max(0, app.GPUs) }

// gpuOption is -gpus-per-proc as it was given, more or less.
func gpuOption(n int) string { return fmt.Sprint("-gpus-per-proc ", n) }

// gpuCapacity is how many ranks of an app the free GPUs of its candidates are enough for.
func (s *placement) gpuCapacity(a *eligibleNodes) int {
	room := 0
	for _, i := range a.candidates {
		room += s.freeGPUs[i] / a.app.GPUs
	}
	return room
}

// refuseFewGPUs is the refusal where GPUs are too few for n ranks, whatever else there is; nil if
// they are not.
func (s *placement) refuseFewGPUs(a *eligibleNodes, n int) *Error {
	if gpusPerRank(a.app) == 0 || s.gpuCapacity(a) >= n {
		return nil
	}
	room, free, taken := s.gpuCapacity(a), 0, 0
	for _, i := range a.candidates {
		free += s.freeGPUs[i]
		taken += len(gpu.OfBestVendor(s.candidates[i].GPUs)) - len(s.candidates[i].gpus)
	}
	verb := "are"
	if free == 1 {
		verb = "is"
	}
	text := fmt.Sprintf("%s by %s: there %s %s for %s on %s (%s)", s.describeExcess(a, n), gpuOption(a.app.GPUs), verb,
		text.Count(free, "free GPU"), text.Count(room, "rank"), text.Count(len(a.candidates), "node"), hostlist.FoldBrief(a.names))
	way := "start fewer ranks or name more hosts"
	if taken > 0 {
		text += fmt.Sprintf("; %d in use", taken)
	} else {
		way += "; without the option ranks share what they see"
	}
	return &Error{Code: CodeNoGPU, Text: text, Remedy: way, WantedRanks: n, FreeRanks: room}
}

// refuseNoGPUs is the refusal when GPUs are what all nodes lack that an app could use; nil if it
// is not.
func (s *placement) refuseNoGPUs(app job.App) *Error {
	var names []string
	why := ""
	w, among := requirementOf(s.req, app), nameSet(app.Hosts)
	for _, i := range s.listedCandidates() {
		n := &s.candidates[i]
		if !n.isNamedIn(among) {
			continue
		}
		code, detail := dropReason(n, &w)
		if code != gpuCheck.code || why != "" && why != detail {
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
	return &Error{Code: CodeNoGPU, Text: fmt.Sprintf("%s: %s: %s", hostlist.FoldBrief(names), gpuOption(app.GPUs), why), Remedy: way, textNamesRejected: true}
}

// listedCandidates are the candidates of the list, each once.
func (s *placement) listedCandidates() []int {
	if s.req.HostEntries == nil {
		return distinctCandidates(s.candidateOf, len(s.candidates))
	}
	var candidates []int
	for _, turn := range s.req.HostEntries {
		candidates = append(candidates, s.candidateOf[turn])
	}
	return distinctCandidates(candidates, len(s.candidates))
}

// bindNearGPUs binds the ranks of a node, some of which get GPUs, on CPUs near these. Who gets no
// GPU, or finds no room near his, has the lowest slots that are left.
func (s *placement) bindNearGPUs(n *candidate, ranks []job.RankPlan, slots []pin.Unit, widths []int) {
	left, gpus := pin.FreeSlots(slots, n.busy), slices.Clone(n.gpus)
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
		s.bindRank(n, &ranks[i], pin.NewAssignment(slots, mine))
	}
	for i := range ranks {
		r, width := &ranks[i], widths[i]
		if want := gpusPerRank(s.req.Apps[r.App]); want > 0 {
			r.GPUs = gpu.ChooseForRank(gpus, want, func(numa int) bool { return len(near(numa)) >= width })
			gpus = gpu.WithoutAddresses(gpus, gpu.Addresses(r.GPUs))
			if beside := slotsNear(r.GPUs, near); len(beside) >= width {
				sit(i, beside)
			}
		}
	}
	for i := range ranks {
		r := &ranks[i]
		if r.ClaimedCPUs == nil {
			some := slotsNear(r.GPUs, near)
			rest := slices.DeleteFunc(slices.Clone(left), func(slot int) bool { return slices.Contains(some, slot) })
			sit(i, append(some, rest...))
		}
	}
}

// slotsNear lists the slots near any of some GPUs, those near the first one first.
func slotsNear(gpus []gpu.GPU, near func(numa int) []int) (slots []int) {
	var seen []int
	for _, g := range gpus {
		if !slices.Contains(seen, g.NUMA) {
			seen = append(seen, g.NUMA)
			slots = append(slots, near(g.NUMA)...)
		}
	}
	return slots
}

// assignGPUs gives the ranks of a node, who have their CPUs, GPUs near these.
func (s *placement) assignGPUs(n *candidate, ranks []job.RankPlan) {
	if s.gpuDemand(ranks) == 0 {
		return
	}
	var wants []gpu.Demand
	of := make(map[int]int) // memory node, by CPU
	for _, c := range n.Topology.Cores {
		for _, cpu := range c.CPUs {
			of[cpu] = c.NUMA
		}
	}
	for _, r := range ranks {
		w := gpu.Demand{N: gpusPerRank(s.req.Apps[r.App])}
		for _, cpu := range r.ClaimedCPUs {
			if numa, known := of[cpu]; known && numa >= 0 && !slices.Contains(w.NUMA, numa) {
				w.NUMA = append(w.NUMA, numa)
			}
		}
		wants = append(wants, w)
	}
	for i, gpus := range gpu.AssignNear(n.gpus, wants) {
		ranks[i].GPUs = gpus
	}
}

// gpuDemand is how many GPUs the ranks of a node get.
func (s *placement) gpuDemand(ranks []job.RankPlan) int {
	total := 0
	for _, r := range ranks {
		total += gpusPerRank(s.req.Apps[r.App])
	}
	return total
}
