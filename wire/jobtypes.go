package wire

import (
	"fmt"
	"math"
	"slices"

	"remshell/gpu"
	"remshell/job"
	"remshell/job/column"
	"remshell/pin"
	"remshell/pmiserver/spawn"
)

// Encodings of types that occur in several messages.

func (c *Codec) env(e *job.Env) {
	c.Bool(&e.Minimal)
	c.Texts(&e.DirVars, Length{"texts", maxFromLauncher}, unboundedLength)
	c.Texts(&e.Set, Length{"texts", maxFromLauncher}, unboundedLength)
	c.Texts(&e.Unset, Length{"texts", maxFromLauncher}, unboundedLength)
}

func (c *Codec) app(a *job.App) {
	c.Texts(&a.Argv, Length{"texts", maxFromLauncher}, unboundedLength)
	c.Text(&a.Dir, unboundedLength)
	c.Texts(&a.SearchBefore, Length{"texts", maxFromLauncher}, unboundedLength)
	c.Texts(&a.SearchAfter, Length{"texts", maxFromLauncher}, unboundedLength)
	c.env(&a.Env)
	c.Num(&a.GPUs, Range{"GPUs", -1, math.MaxInt32}) // -1: GPUs are hidden
	c.Text(&a.StagedFile, Length{"name", 255})
	c.Num(&a.N, SizeRange)
	c.Word((*string)(&a.PMIOffer), "offer")
}

func (c *Codec) pair(p *spawn.Pair) {
	c.Text(&p.Key, unboundedLength)
	c.Text(&p.Value, unboundedLength)
}

func (c *Codec) rank(r *job.RankPlan) {
	if r.RankResources == nil {
		r.RankResources = new(job.RankResources)
	}
	c.Num(&r.Rank, RankRange)
	c.Num(&r.Local, RankRange)
	c.Num(&r.App, SizeRange)
	c.Nums(&r.Slots, Length{"slots", maxFromLauncher}, slotRange)
	c.CPUs(&r.ClaimedCPUs)
	c.CPUs(&r.CPUs)
	c.Nums(&r.Mems, Length{"NUMA nodes", maxCPUs}, numaNodeRange)
	c.Word((*string)(&r.MemMode), "memory mode")
	List(c, &r.GPUs, Length{"GPUs", maxGPUs}, (*Codec).gpu)
}

func (c *Codec) gpu(g *gpu.GPU) {
	c.Word((*string)(&g.Vendor), "vendor")
	c.Num(&g.Index, Range{"GPU", 0, maxGPUs - 1})
	c.Nums(&g.Tiles, Length{"tiles", maxGPUs}, Range{"tile", 0, math.MaxUint16})
	c.Text(&g.Address, busAddressLength)
	c.Num(&g.NUMA, numaNodeOrNone)
	c.Word(&g.Driver, "driver")
}

func (c *Codec) exit(e *job.Exit) {
	c.Num(&e.Rank, RankRange)
	c.Num(&e.Code, codeRange)
	c.Num(&e.Signal, SignalRange)
	c.Bool(&e.Core)
	c.Bool(&e.ToldToEnd)
	c.Num8((*int8)(&e.PMI), pmiStateRange)
	c.usage(&e.Usage)
	c.Sentence(&e.Hint, "hint")
	c.Word(&e.MPILibrary, "library")
	c.Word((*string)(&e.PMIOffer), "offer")
	c.Num64(&e.StdinRead, Range{"input", -1, maxMemory})
	c.Num(&e.FinalizeBarrier, SizeRange)
	c.Word(&e.LibraryFault, "fault")
	c.Require(e.Code == 0 || e.Signal == 0, "an exit has both code %d and signal %d", e.Code, e.Signal)
}

func (c *Codec) usage(u *job.Usage) {
	c.Duration(&u.Wall, "time")
	c.Duration(&u.User, "time")
	c.Duration(&u.System, "time")
	c.Num64(&u.MaxRSS, BytesRange)
	c.Num64(&u.InBlocks, blocksRange)
	c.Num64(&u.OutBlocks, blocksRange)
}

func (c *Codec) orphan(o *job.OrphanUsage) {
	c.Num(&o.Rank, RankOrNone)
	c.usage(&o.Usage)
}

// RankState reads or writes the state of a rank.
func (c *Codec) RankState(s *job.RankState) {
	c.Num(&s.Rank, RankRange)
	c.Num(&s.PID, pidRange)
	c.Word(&s.Phase, "phase")
	c.Num8((*int8)(&s.PMI), pmiStateRange)
	c.Num(&s.Barrier, Range{"barrier", 0, 1 << 53})
	c.Word(&s.WaitsFor, "wait")
	c.Duration(&s.CPU, "time")
	c.Word(&s.WaitChannel, "wait channel")
	c.Word(&s.ProcState, "state")
}

func (c *Codec) softLimit(l *job.SoftLimit) {
	c.Num(&l.Resource, Range{"resource", 0, 63})
	c.Num64(&l.Soft, limitOrNone)
}

func (c *Codec) priority(p *job.Priority) {
	c.Bool(&p.Known)
	c.Num(&p.Nice, Range{"niceness", -20, 19})
	c.Num(&p.IO, Range{"I/O priority", 0, 1<<16 - 1})
	c.Num(&p.OOMScore, Range{"OOM score adjustment", -1000, 1000})
}

func (c *Codec) kernelLimit(b *job.KernelLimit) {
	c.Word((*string)(&b.Resource), "limit")
	c.Num64(&b.Max, Range{"limit", 0, maxBound})
}

func (c *Codec) core(p *pin.Core) {
	c.Nums(&p.CPUs, Length{"CPUs", maxCPUs}, cpuRange)
	c.Nums(&p.Unusable, Length{"CPUs", maxCPUs}, cpuRange)
	c.Num(&p.NUMA, numaNodeOrNone)
	c.Num(&p.Package, packageOrNone)
	c.Num(&p.L3, cacheOrNone)
	c.Num(&p.L2, cacheOrNone)
	c.Word((*string)(&p.Kind), "kind of core")
}

func (c *Codec) probe(p *job.Probe) {
	c.Word(&p.Hostname, "host name")
	c.Word(&p.Arch, "architecture")
	c.Word(&p.Kernel, "kernel")
	c.Word(&p.Identity, "identity")
	List(c, &p.Topology.Cores, Length{"cores", maxCores}, (*Codec).core)
	c.load(&p.Load)
	c.Num64(&p.Memory.Total, BytesRange)
	c.Num64(&p.Memory.Available, BytesRange)
	c.Bool(&p.Memory.HugePages.Probed)
	c.Num64(&p.Memory.HugePages.Size, BytesRange)
	c.Num64(&p.Memory.HugePages.Total, Range{"huge pages", 0, maxMemory})
	c.Num64(&p.Memory.HugePages.Free, Range{"huge pages", 0, maxMemory})
	c.Time(&p.NodeTime, "clock")
	c.Word(&p.Model, "model")
	List(c, &p.GPUs, Length{"GPUs", maxGPUs}, (*Codec).gpu)
	c.Num(&p.WithheldGPUs, Range{"withheld GPUs", 0, maxGPUs})
	c.Bool(&p.Fabric)
	c.Num(&p.CPUQuota, Range{"quota", 0, maxCPUs})
	c.Word(&p.Holder, "process")
	c.requireUniqueDevices(p)
}

func (c *Codec) attributes(t *job.Attributes) {
	c.Num(&t.Speed, Range{"MHz", 0, 1_000_000})
	c.Text((*string)(&t.SpeedQuality), labelLength)
	c.Texts(&t.Networks, Length{"networks", job.MaxLabels}, labelLength)
	c.Num(&t.NetSpeed, Range{"Mb/s", 0, 100_000_000})
	c.Text(&t.CPUModel, labelLength)
	c.Texts(&t.GPUModels, Length{"models", job.MaxLabels}, labelLength)
	c.Require(t.IsValidProbe(), "a host attribute has a value that no host can have")
}

// requireUniqueDevices makes the message invalid if the probe of a machine lists a CPU or a GPU twice.
func (c *Codec) requireUniqueDevices(p *job.Probe) {
	if !c.Reading {
		return
	}
	var cpus cpuSet
	for i := range p.Topology.Cores {
		c.requireUnique(&cpus, p.Topology.Cores[i].CPUs)
		c.requireUnique(&cpus, p.Topology.Cores[i].Unusable)
	}
	for i, g := range p.GPUs {
		twice := slices.ContainsFunc(p.GPUs[:i], func(o gpu.GPU) bool { return o.Vendor == g.Vendor && o.Index == g.Index })
		c.Require(!twice, "GPU %d twice", g.Index)
	}
}

func (c *Codec) load(p *[3]float64) {
	for i := range p {
		n := int64(math.Float64bits(p[i]))
		c.varint(&n)
		p[i] = math.Float64frombits(uint64(n))
		if can := p[i] >= -1 && p[i] <= maxLoad; c.Reading && !can {
			c.Fail(ValueError(fmt.Sprintf("load %g", p[i])))
		}
	}
}

func (c *Codec) claim(p *job.Claim) {
	c.Word((*string)(&p.Job), "job")
	c.Word((*string)(&p.ParentJob), "job")
	c.Num(&p.UID, uidRange)
	c.Word(&p.User, "user")
	c.Word(&p.LauncherHost, "host")
	c.Word(&p.Node, "node")
	c.Num(&p.Nodes, SizeRange)
	c.Num(&p.Size, SizeRange)
	c.Bool(&p.Exclusive)
	c.Time(&p.Since, "time")
	c.Sentence(&p.Command, "command")
	c.Word(&p.RM, "batch job")
	c.Word(&p.Class, "class")
	c.Word(&p.NodeSet, "node set")
	c.Num(&p.CPUsPerRank, SizeRange)
	c.Num(&p.ExactPerNode, SizeRange)
	List(c, &p.Ranks, Length{"claimed ranks", maxClaimedRanks - c.claimedRanks}, (*Codec).claimedRank)
	c.Num(&p.PID, pidRange)
	c.Num(&p.LauncherPID, pidRange)
	c.reported(&p.Reported)
	c.Bool(&p.Movable)
	c.Word((*string)(&p.IdleReason), "reason")
	c.Bool(&p.Shares)
	c.gang(&p.Gang)
	c.Bool(&p.Suspended)
}

// gang reads or writes a pointer to a Gang, which may be nil.
func (c *Codec) gang(p **job.Gang) {
	has := *p != nil
	if c.Bool(&has); !has {
		return
	}
	if *p == nil {
		*p = new(job.Gang)
	}
	c.Num(&(*p).Party, Range{"party", 0, job.MaxParties - 1})
	c.gangTerms(&(*p).GangTerms)
	c.Num64(&(*p).Memory, BytesRange)
	c.Require((*p).IsValid(), "party %d in a gang of %d parties", (*p).Party, (*p).Parties)
}

// sliceRange is the valid range for the length of a gang's time slice, in ns. 0 means that no length is set.
var sliceRange = Range{"slice", 0, int64(job.MaxSlice)}

func (c *Codec) gangTerms(p *job.GangTerms) {
	c.Num(&p.Parties, Range{"parties", 0, job.MaxParties})
	c.Num64((*int64)(&p.Slice), sliceRange)
}

// reported reads or writes the values of a claim for the columns of --ps. There may be fewer values than columns.
func (c *Codec) reported(p *[]int64) {
	next := column.All
	List(c, p, Length{"columns", len(next)}, func(c *Codec, value *int64) {
		var bounds Range
		if len(next) > 0 {
			bounds, next = Range{next[0].Name, column.None, next[0].Max}, next[1:]
		}
		c.Num64(value, bounds)
	})
}

func (c *Codec) claimedRank(p *job.ClaimedRank) {
	c.Num(&p.Rank, RankRange)
	c.CPUs(&p.CPUs)
	c.claimedRanks, c.claimedCPUs = c.claimedRanks+1, c.claimedCPUs+len(p.CPUs)
	c.Require(c.claimedCPUs <= maxClaimedCPUs, "the claims have too many CPUs (%d)", c.claimedCPUs)
	c.Texts(&p.GPUs, Length{"addresses", maxGPUs}, busAddressLength)
}

func (c *Codec) ticket(p *job.Ticket) {
	c.Num64(&p.Number, ticketRange)
	c.Word((*string)(&p.Job), "job")
	c.Num(&p.UID, uidRange)
	c.Word(&p.User, "user")
	c.Word(&p.LauncherHost, "host")
	c.Num(&p.Size, SizeRange)
	c.Time(&p.Since, "time")
	c.Sentence(&p.Summary, "summary")
	c.Num(&p.CPUs, SizeRange)
	c.Bool(&p.Exclusive)
	c.Num(&p.PerNode, SizeRange)
	c.Bool(&p.Shares)
	c.Text(&p.Nodes, pathLength)
	c.Num(&p.PID, pidRange)
	c.Num(&p.ExactPerNode, SizeRange)
	c.Word(&p.NodeSet, "node set")
	c.Num(&p.MaxSetDelay, SizeRange)
	c.Time(&p.SetDelayEnd, "time")
}
