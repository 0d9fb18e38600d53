package wire

import (
	"fmt"
	"math"
	"slices"

	"remshell/gpu"
	"remshell/job"
	"remshell/pin"
	"remshell/pmiserver/spawn"
)

// What several messages are made of.

func (c *codec) env(e *job.Env) {
	c.flag(&e.Bare)
	c.texts(&e.Dirs, length{"texts", many}, anyText)
	c.texts(&e.Set, length{"texts", many}, anyText)
	c.texts(&e.Unset, length{"texts", many}, anyText)
}

func (c *codec) app(a *job.App) {
	c.texts(&a.Argv, length{"texts", many}, anyText)
	c.text(&a.Dir, anyText)
	c.texts(&a.Path, length{"texts", many}, anyText)
	c.texts(&a.Behind, length{"texts", many}, anyText)
	c.env(&a.Env)
	c.num(&a.GPUs, valueRange{"GPUs", -1, math.MaxInt32}) // -1: they are hidden
	c.text(&a.Staged, aFileName)
	c.num(&a.N, aSize)
	c.word((*string)(&a.PMI), "offer")
}

func (c *codec) command(p *spawn.Command) {
	c.texts(&p.Argv, length{"texts", maxWords}, anyText)
	c.num(&p.Count, valueRange{"count", 1, many})
	list(c, &p.Info, length{"keys", maxPairs}, (*codec).pair)
	c.texts(&p.Env, length{"variables", maxPairs}, anyText)
	c.sure(len(p.Argv) > 0, "command without a program")
}

func (c *codec) pair(p *spawn.Pair) {
	c.text(&p.Key, anyText)
	c.text(&p.Value, anyText)
}

func (c *codec) rank(r *job.RankPlan) {
	if r.Portion == nil {
		r.Portion = new(job.Portion)
	}
	c.num(&r.Rank, aRank)
	c.num(&r.Local, aRank)
	c.num(&r.App, aSize)
	c.nums(&r.Slots, length{"slots", many}, aSlot)
	c.cpus(&r.Held)
	c.cpus(&r.CPUs)
	c.nums(&r.Mems, length{"NUMA nodes", maxCPUs}, aMem)
	c.word((*string)(&r.MemMode), "memory mode")
	list(c, &r.GPUs, length{"GPUs", maxGPUs}, (*codec).gpu)
}

func (c *codec) gpu(g *gpu.GPU) {
	c.word((*string)(&g.Vendor), "vendor")
	c.num(&g.Index, valueRange{"GPU", 0, maxGPUs - 1})
	c.nums(&g.Tiles, length{"tiles", maxGPUs}, valueRange{"tile", 0, math.MaxUint16})
	c.text(&g.Address, aBusAddress)
	c.num(&g.NUMA, aNUMA)
	c.word(&g.Driver, "driver")
}

func (c *codec) exit(e *job.Exit) {
	c.num(&e.Rank, aRank)
	c.num(&e.Code, aCode)
	c.num(&e.Signal, aSignal)
	c.flag(&e.Core)
	c.flag(&e.Asked)
	c.small((*int8)(&e.PMI), aState)
	c.usage(&e.Usage)
	c.sentence(&e.Hint, "hint")
	c.word(&e.Built, "library")
	c.word((*string)(&e.Offer), "offer")
	c.num64(&e.Input, valueRange{"input", -1, maxMemory})
	c.num(&e.Barrier, aSize)
	c.word(&e.Fault, "fault")
	c.sure(e.Code == 0 || e.Signal == 0, "code %d and signal %d", e.Code, e.Signal)
}

func (c *codec) usage(u *job.Usage) {
	c.time(&u.Wall, "time")
	c.time(&u.User, "time")
	c.time(&u.System, "time")
	c.num64(&u.MaxRSS, aMemory)
	c.num64(&u.InBlocks, aBlocks)
	c.num64(&u.OutBlocks, aBlocks)
}

func (c *codec) sample(s *job.Sample) {
	c.time(&s.CPU, "time")
	c.num64(&s.Mem, aMemory)
	c.num64(&s.VMem, aMemory)
}

func (c *codec) rankSample(s *job.RankSample) {
	c.num(&s.Rank, aRank)
	c.sample(&s.Sample)
}

func (c *codec) orphan(o *job.Orphan) {
	c.num(&o.Rank, orNone)
	c.usage(&o.Usage)
}

// A remnant's node is the one that speaks of it.
func (c *codec) remnant(r *job.Remnant) {
	c.word(&r.Kind, "kind")
	c.text(&r.ID, length{"ID", maxWord + len("/dev/shm/")})
	c.num64(&r.Bytes, aMemory)
	c.num(&r.Rank, orNone)
	c.word(&r.Err, "error")
}

func (c *codec) rankState(s *job.RankState) {
	c.num(&s.Rank, aRank)
	c.num(&s.PID, aPID)
	c.word(&s.Life, "life")
	c.small((*int8)(&s.PMI), aState)
	c.num(&s.Barrier, valueRange{"barrier", 0, 1 << 53})
	c.word(&s.Waits, "wait")
	c.time(&s.CPU, "time")
	c.word(&s.Sleep, "wait channel")
	c.word(&s.Kind, "state")
	c.prose(&s.Stack, length{"stack", maxStack})
}

func (c *codec) softLimit(l *job.SoftLimit) {
	c.num(&l.Resource, valueRange{"resource", 0, 63})
	c.num64(&l.Soft, aLimit)
}

func (c *codec) bound(b *job.Bound) {
	c.word((*string)(&b.Resource), "limit")
	c.num64(&b.Most, valueRange{"limit", 0, maxBound})
}

func (c *codec) core(p *pin.Core) {
	c.nums(&p.CPUs, length{"CPUs", maxCPUs}, aCPU)
	c.nums(&p.Shut, length{"CPUs", maxCPUs}, aCPU)
	c.num(&p.NUMA, aNUMA)
	c.num(&p.Package, aPackage)
	c.num(&p.L3, aCache)
	c.num(&p.L2, aCache)
	c.word((*string)(&p.Kind), "kind of core")
}

func (c *codec) probe(p *job.Probe) {
	c.word(&p.Hostname, "host name")
	c.word(&p.Arch, "architecture")
	c.word(&p.Kernel, "kernel")
	c.word(&p.Identity, "identity")
	list(c, &p.Topology.Cores, length{"cores", maxCores}, (*codec).core)
	c.load(&p.Load)
	c.num64(&p.Memory.Total, aMemory)
	c.num64(&p.Memory.Available, aMemory)
	c.flag(&p.Memory.Huge.Known)
	c.num64(&p.Memory.Huge.Size, aMemory)
	c.num64(&p.Memory.Huge.Total, valueRange{"huge pages", 0, maxMemory})
	c.num64(&p.Memory.Huge.Free, valueRange{"huge pages", 0, maxMemory})
	c.moment(&p.Clock, "clock")
	c.word(&p.Model, "model")
	list(c, &p.GPUs, length{"GPUs", maxGPUs}, (*codec).gpu)
	c.num(&p.Barred, valueRange{"barred GPUs", 0, maxGPUs})
	c.flag(&p.Fabric)
	c.num(&p.Quota, valueRange{"quota", 0, maxCPUs})
	c.word(&p.Holder, "process")
	c.different(p)
}

func (c *codec) traits(t *job.Traits) {
	c.num(&t.Speed, valueRange{"MHz", 0, 1_000_000})
	c.text((*string)(&t.Quality), aLabel)
	c.texts(&t.Networks, length{"networks", job.MaxLabels}, aLabel)
	c.num(&t.NetSpeed, valueRange{"Mb/s", 0, 100_000_000})
	c.text(&t.CPUModel, aLabel)
	c.texts(&t.GPUModels, length{"models", job.MaxLabels}, aLabel)
	c.sure(t.Probed(), "words that no probe finds")
}

// different refuses a machine that has a CPU or a GPU twice.
func (c *codec) different(p *job.Probe) {
	if !c.reading {
		return
	}
	var cpus cpuSet
	for i := range p.Topology.Cores {
		c.once(&cpus, p.Topology.Cores[i].CPUs)
		c.once(&cpus, p.Topology.Cores[i].Shut)
	}
	for i, g := range p.GPUs {
		twice := slices.ContainsFunc(p.GPUs[:i], func(o gpu.GPU) bool { return o.Vendor == g.Vendor && o.Index == g.Index })
		c.sure(!twice, "GPU %d twice", g.Index)
	}
}

func (c *codec) load(p *[3]float64) {
	for i := range p {
		n := int64(math.Float64bits(p[i]))
		c.varint(&n)
		p[i] = math.Float64frombits(uint64(n))
		if can := p[i] >= -1 && p[i] <= maxLoad; c.reading && !can {
			c.fail(impossible(fmt.Sprintf("load %g", p[i])))
		}
	}
}

func (c *codec) claim(p *job.Claim) {
	c.word((*string)(&p.Job), "job")
	c.word((*string)(&p.Inside), "job")
	c.num(&p.UID, aUID)
	c.word(&p.User, "user")
	c.word(&p.From, "host")
	c.word(&p.Node, "node")
	c.num(&p.Nodes, aSize)
	c.num(&p.Size, aSize)
	c.flag(&p.Exclusive)
	c.moment(&p.Since, "time")
	c.sentence(&p.Command, "command")
	c.word(&p.RM, "batch job")
	c.word(&p.Class, "class")
	c.word(&p.NodeSet, "node set")
	c.num(&p.Depth, aSize)
	c.num(&p.Shape, aSize)
	list(c, &p.Ranks, length{"seats", maxSeats - c.seats}, (*codec).claimedRank)
	c.num(&p.PID, aPID)
	c.num(&p.Launcher, aPID)
	c.flag(&p.Idle)
	c.flag(&p.Stopped)
	c.flag(&p.Movable)
	c.word((*string)(&p.Resting), "reason")
	c.flag(&p.Shares)
}

func (c *codec) claimedRank(p *job.ClaimedRank) {
	c.num(&p.Rank, aRank)
	c.cpus(&p.CPUs)
	c.seats, c.held = c.seats+1, c.held+len(p.CPUs)
	c.sure(c.held <= maxHeld, "%d CPUs in claims", c.held)
	c.texts(&p.GPUs, length{"addresses", maxGPUs}, aBusAddress)
}

func (c *codec) ticket(p *job.Ticket) {
	c.num64(&p.Number, aTicket)
	c.word((*string)(&p.Job), "job")
	c.num(&p.UID, aUID)
	c.word(&p.User, "user")
	c.word(&p.From, "host")
	c.num(&p.Size, aSize)
	c.moment(&p.Since, "time")
	c.sentence(&p.Summary, "summary")
	c.num(&p.CPUs, aSize)
	c.flag(&p.Exclusive)
	c.num(&p.PerNode, aSize)
	c.flag(&p.Shares)
	c.text(&p.Nodes, aPath)
	c.num(&p.PID, aPID)
	c.num(&p.Shape, aSize)
	c.word(&p.NodeSet, "node set")
	c.num(&p.Delay, aSize)
	c.moment(&p.Until, "time")
}
