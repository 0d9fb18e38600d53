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

// Encodings of types that occur in several messages.

func (c *codec) env(e *job.Env) {
	c.boolean(&e.Minimal)
	c.texts(&e.DirVars, length{"texts", maxFromLauncher}, unboundedLength)
	c.texts(&e.Set, length{"texts", maxFromLauncher}, unboundedLength)
	c.texts(&e.Unset, length{"texts", maxFromLauncher}, unboundedLength)
}

func (c *codec) app(a *job.App) {
	c.texts(&a.Argv, length{"texts", maxFromLauncher}, unboundedLength)
	c.text(&a.Dir, unboundedLength)
	c.texts(&a.SearchBefore, length{"texts", maxFromLauncher}, unboundedLength)
	c.texts(&a.SearchAfter, length{"texts", maxFromLauncher}, unboundedLength)
	c.env(&a.Env)
	c.num(&a.GPUs, valueRange{"GPUs", -1, math.MaxInt32}) // -1: GPUs are hidden
	c.text(&a.StagedFile, fileNameLength)
	c.num(&a.N, sizeRange)
	c.word((*string)(&a.PMIOffer), "offer")
}

func (c *codec) command(p *spawn.Command) {
	c.texts(&p.Argv, length{"texts", maxWords}, unboundedLength)
	c.num(&p.Count, valueRange{"count", 1, maxFromLauncher})
	list(c, &p.Info, length{"keys", maxPairs}, (*codec).pair)
	c.texts(&p.Env, length{"variables", maxPairs}, unboundedLength)
	c.require(len(p.Argv) > 0, "command without a program")
}

func (c *codec) pair(p *spawn.Pair) {
	c.text(&p.Key, unboundedLength)
	c.text(&p.Value, unboundedLength)
}

func (c *codec) rank(r *job.RankPlan) {
	if r.RankResources == nil {
		r.RankResources = new(job.RankResources)
	}
	c.num(&r.Rank, rankRange)
	c.num(&r.Local, rankRange)
	c.num(&r.App, sizeRange)
	c.nums(&r.Slots, length{"slots", maxFromLauncher}, slotRange)
	c.cpus(&r.ClaimedCPUs)
	c.cpus(&r.CPUs)
	c.nums(&r.Mems, length{"NUMA nodes", maxCPUs}, numaNodeRange)
	c.word((*string)(&r.MemMode), "memory mode")
	list(c, &r.GPUs, length{"GPUs", maxGPUs}, (*codec).gpu)
}

func (c *codec) gpu(g *gpu.GPU) {
	c.word((*string)(&g.Vendor), "vendor")
	c.num(&g.Index, valueRange{"GPU", 0, maxGPUs - 1})
	c.nums(&g.Tiles, length{"tiles", maxGPUs}, valueRange{"tile", 0, math.MaxUint16})
	c.text(&g.Address, busAddressLength)
	c.num(&g.NUMA, numaNodeOrNone)
	c.word(&g.Driver, "driver")
}

func (c *codec) exit(e *job.Exit) {
	c.num(&e.Rank, rankRange)
	c.num(&e.Code, codeRange)
	c.num(&e.Signal, signalRange)
	c.boolean(&e.Core)
	c.boolean(&e.ToldToEnd)
	c.num8((*int8)(&e.PMI), pmiStateRange)
	c.usage(&e.Usage)
	c.sentence(&e.Hint, "hint")
	c.word(&e.MPILibrary, "library")
	c.word((*string)(&e.PMIOffer), "offer")
	c.num64(&e.StdinRead, valueRange{"input", -1, maxMemory})
	c.num(&e.FinalizeBarrier, sizeRange)
	c.word(&e.LibraryFault, "fault")
	c.require(e.Code == 0 || e.Signal == 0, "code %d and signal %d", e.Code, e.Signal)
}

func (c *codec) usage(u *job.Usage) {
	c.duration(&u.Wall, "time")
	c.duration(&u.User, "time")
	c.duration(&u.System, "time")
	c.num64(&u.MaxRSS, bytesRange)
	c.num64(&u.InBlocks, blocksRange)
	c.num64(&u.OutBlocks, blocksRange)
}

func (c *codec) usageSample(s *job.UsageSample) {
	c.duration(&s.CPU, "time")
	c.num64(&s.Mem, bytesRange)
	c.num64(&s.VMem, bytesRange)
}

func (c *codec) rankUsageSample(s *job.RankUsageSample) {
	c.num(&s.Rank, rankRange)
	c.usageSample(&s.UsageSample)
}

func (c *codec) orphan(o *job.OrphanUsage) {
	c.num(&o.Rank, rankOrNone)
	c.usage(&o.Usage)
}

// leftover does not encode Node: it is the node that sends the message.
func (c *codec) leftover(r *job.Leftover) {
	c.word(&r.Kind, "kind")
	c.text(&r.ID, length{"ID", maxWord + len("/dev/shm/")})
	c.num64(&r.Bytes, bytesRange)
	c.num(&r.Rank, rankOrNone)
	c.word(&r.Err, "error")
}

func (c *codec) rankState(s *job.RankState) {
	c.num(&s.Rank, rankRange)
	c.num(&s.PID, pidRange)
	c.word(&s.Phase, "life")
	c.num8((*int8)(&s.PMI), pmiStateRange)
	c.num(&s.Barrier, valueRange{"barrier", 0, 1 << 53})
	c.word(&s.WaitsFor, "wait")
	c.duration(&s.CPU, "time")
	c.word(&s.WaitChannel, "wait channel")
	c.word(&s.ProcState, "state")
	c.humanText(&s.Stack, length{"stack", maxStack})
}

func (c *codec) softLimit(l *job.SoftLimit) {
	c.num(&l.Resource, valueRange{"resource", 0, 63})
	c.num64(&l.Soft, limitOrNone)
}

func (c *codec) kernelLimit(b *job.KernelLimit) {
	c.word((*string)(&b.Resource), "limit")
	c.num64(&b.Max, valueRange{"limit", 0, maxBound})
}

func (c *codec) core(p *pin.Core) {
	c.nums(&p.CPUs, length{"CPUs", maxCPUs}, cpuRange)
	c.nums(&p.Unusable, length{"CPUs", maxCPUs}, cpuRange)
	c.num(&p.NUMA, numaNodeOrNone)
	c.num(&p.Package, packageOrNone)
	c.num(&p.L3, cacheOrNone)
	c.num(&p.L2, cacheOrNone)
	c.word((*string)(&p.Kind), "kind of core")
}

func (c *codec) probe(p *job.Probe) {
	c.word(&p.Hostname, "host name")
	c.word(&p.Arch, "architecture")
	c.word(&p.Kernel, "kernel")
	c.word(&p.Identity, "identity")
	list(c, &p.Topology.Cores, length{"cores", maxCores}, (*codec).core)
	c.load(&p.Load)
	c.num64(&p.Memory.Total, bytesRange)
	c.num64(&p.Memory.Available, bytesRange)
	c.boolean(&p.Memory.HugePages.Probed)
	c.num64(&p.Memory.HugePages.Size, bytesRange)
	c.num64(&p.Memory.HugePages.Total, valueRange{"huge pages", 0, maxMemory})
	c.num64(&p.Memory.HugePages.Free, valueRange{"huge pages", 0, maxMemory})
	c.timestamp(&p.NodeTime, "clock")
	c.word(&p.Model, "model")
	list(c, &p.GPUs, length{"GPUs", maxGPUs}, (*codec).gpu)
	c.num(&p.WithheldGPUs, valueRange{"withheld GPUs", 0, maxGPUs})
	c.boolean(&p.Fabric)
	c.num(&p.CPUQuota, valueRange{"quota", 0, maxCPUs})
	c.word(&p.Holder, "process")
	c.requireUniqueDevices(p)
}

func (c *codec) attributes(t *job.Attributes) {
	c.num(&t.Speed, valueRange{"MHz", 0, 1_000_000})
	c.text((*string)(&t.SpeedQuality), labelLength)
	c.texts(&t.Networks, length{"networks", job.MaxLabels}, labelLength)
	c.num(&t.NetSpeed, valueRange{"Mb/s", 0, 100_000_000})
	c.text(&t.CPUModel, labelLength)
	c.texts(&t.GPUModels, length{"models", job.MaxLabels}, labelLength)
	c.require(t.IsValidProbe(), "attributes that no probe finds")
}

// requireUniqueDevices fails if the machine has a CPU or a GPU twice.
func (c *codec) requireUniqueDevices(p *job.Probe) {
	if !c.reading {
		return
	}
	var cpus cpuSet
	for i := range p.Topology.Cores {
		c.requireUnique(&cpus, p.Topology.Cores[i].CPUs)
		c.requireUnique(&cpus, p.Topology.Cores[i].Unusable)
	}
	for i, g := range p.GPUs {
		twice := slices.ContainsFunc(p.GPUs[:i], func(o gpu.GPU) bool { return o.Vendor == g.Vendor && o.Index == g.Index })
		c.require(!twice, "GPU %d twice", g.Index)
	}
}

func (c *codec) load(p *[3]float64) {
	for i := range p {
		n := int64(math.Float64bits(p[i]))
		c.varint(&n)
		p[i] = math.Float64frombits(uint64(n))
		if can := p[i] >= -1 && p[i] <= maxLoad; c.reading && !can {
			c.fail(valueError(fmt.Sprintf("load %g", p[i])))
		}
	}
}

func (c *codec) claim(p *job.Claim) {
	c.word((*string)(&p.Job), "job")
	c.word((*string)(&p.ParentJob), "job")
	c.num(&p.UID, uidRange)
	c.word(&p.User, "user")
	c.word(&p.LauncherHost, "host")
	c.word(&p.Node, "node")
	c.num(&p.Nodes, sizeRange)
	c.num(&p.Size, sizeRange)
	c.boolean(&p.Exclusive)
	c.timestamp(&p.Since, "time")
	c.sentence(&p.Command, "command")
	c.word(&p.RM, "batch job")
	c.word(&p.Class, "class")
	c.word(&p.NodeSet, "node set")
	c.num(&p.CPUsPerRank, sizeRange)
	c.num(&p.ExactPerNode, sizeRange)
	list(c, &p.Ranks, length{"claimed ranks", maxClaimedRanks - c.claimedRanks}, (*codec).claimedRank)
	c.num(&p.PID, pidRange)
	c.num(&p.LauncherPID, pidRange)
	c.boolean(&p.Idle)
	c.boolean(&p.Stopped)
	c.boolean(&p.Movable)
	c.word((*string)(&p.IdleReason), "reason")
	c.boolean(&p.Shares)
}

func (c *codec) claimedRank(p *job.ClaimedRank) {
	c.num(&p.Rank, rankRange)
	c.cpus(&p.CPUs)
	c.claimedRanks, c.claimedCPUs = c.claimedRanks+1, c.claimedCPUs+len(p.CPUs)
	c.require(c.claimedCPUs <= maxClaimedCPUs, "%d CPUs in claims", c.claimedCPUs)
	c.texts(&p.GPUs, length{"addresses", maxGPUs}, busAddressLength)
}

func (c *codec) ticket(p *job.Ticket) {
	c.num64(&p.Number, ticketRange)
	c.word((*string)(&p.Job), "job")
	c.num(&p.UID, uidRange)
	c.word(&p.User, "user")
	c.word(&p.LauncherHost, "host")
	c.num(&p.Size, sizeRange)
	c.timestamp(&p.Since, "time")
	c.sentence(&p.Summary, "summary")
	c.num(&p.CPUs, sizeRange)
	c.boolean(&p.Exclusive)
	c.num(&p.PerNode, sizeRange)
	c.boolean(&p.Shares)
	c.text(&p.Nodes, pathLength)
	c.num(&p.PID, pidRange)
	c.num(&p.ExactPerNode, sizeRange)
	c.word(&p.NodeSet, "node set")
	c.num(&p.MaxSetDelay, sizeRange)
	c.timestamp(&p.SetDelayEnd, "time")
}
