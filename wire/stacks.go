package wire

import "remshell/job"

// StackReport reads or writes a report of the stacks of ranks.
func (c *Codec) StackReport(r *job.StackReport) {
	List(c, &r.Groups, Length{"groups", job.MaxStackGroups}, (*Codec).stackGroup)
	List(c, &r.Notes, Length{"notes", job.MaxStackNotes}, func(c *Codec, p *string) { c.Word(p, "note") })
}

func (c *Codec) stackGroup(g *job.StackGroup) {
	c.Nums(&g.Ranks, Length{"ranks", MaxOnNode}, RankRange)
	List(c, &g.Nodes, Length{"nodes", MaxOnNode}, func(c *Codec, p *string) { c.Word(p, "node") })
	c.Word(&g.Thread, "thread")
	c.Num(&g.Threads, Range{"threads", 1, 1 << 31})
	c.Word((*string)(&g.State), "state")
	c.Word(&g.Signal, "signal")
	c.Word(&g.WaitsIn, "wait channel")
	c.Word(&g.Note, "note")
	List(c, &g.Frames, Length{"frames", job.MaxStackFrames}, func(c *Codec, f *job.StackFrame) {
		c.Word(&f.Function, "function")
		c.Word(&f.File, "file")
		c.Num(&f.Line, Range{"line", 0, 1 << 31})
		c.Word(&f.Library, "library")
	})
}

// TruncateStacks returns a report without the groups that cannot be encoded or would make it larger than size
// bytes.
func TruncateStacks(r job.StackReport, size int) job.StackReport {
	left, groups := size-job.MaxStackNotes*2*maxWord, job.MaxStackGroups
	all := len(r.Groups)
	r.Groups = sendable(r.Groups, (*Codec).stackGroup, &left, &groups)
	r.Notes = r.Notes[:min(len(r.Notes), job.MaxStackNotes-1)]
	if len(r.Groups) < all {
		r.Notes = append(r.Notes[:len(r.Notes):len(r.Notes)], "there are more groups of stacks than fit into a reply")
	}
	return r
}
