/*
Package usage is the feature of mpiexec that measures the CPU time and memory of a job's processes while they run. It
ends a job that exceeds a limit (rules RM-51 to RM-56). The exact usage of processes that have ended, as wait4(2)
reports it, is in the messages Exited and Drained, which are not part of the feature.

	--usage, --report, --limit: Sampling --Prepare--> helper
	limits.toml of the node ----> kernel limits of the ranks
	       |
	helper: a sample of all processes, every second or every five
	       |   '-- more than limits.toml allows --LimitExceeded--> the job ends
	   SampledUsage
	       v
	mpiexec: maximum of each rank, each node and the job
	           '-- more than --limit allows -----------------------> the job ends
	the end --> exact usage and maxima: --usage, --report

	Sampling           options.go
	limits.toml        nodelimits.go
	/proc              package sampler
	Totals             totals.go, pure
	--limit            joblimits.go, pure
	--usage            report.go, resources.go
*/
package usage

import (
	"fmt"

	"remshell/job"
	"remshell/launch/node"
	"remshell/limits"
	"remshell/wire"
)

// SampledUsage reports the current usage of all processes of the job on the node, and of the processes of each rank
// that has or had any (rule RM-51).
type SampledUsage struct {
	Host  job.UsageSample
	Ranks []job.RankUsageSample
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *SampledUsage) Fields(c *wire.Codec) {
	sampleFields(c, &m.Host)
	wire.List(c, &m.Ranks, wire.Length{Name: "ranks", Max: wire.MaxOnNode}, func(c *wire.Codec, s *job.RankUsageSample) {
		c.Num(&s.Rank, wire.RankRange)
		sampleFields(c, &s.UsageSample)
	})
}

func sampleFields(c *wire.Codec, s *job.UsageSample) {
	c.Duration(&s.CPU, "time")
	c.Num64(&s.Mem, wire.BytesRange)
	c.Num64(&s.VMem, wire.BytesRange)
}

// LimitExceeded reports that a rank has exceeded a limit that the node's administrator has set (rule RM-55). The
// helper then ends its ranks. If Rank is -1, all ranks on the node together have exceeded the limit or, for the limit
// pmem, the processes that belong to no rank.
type LimitExceeded struct {
	Rank  int
	Limit job.KernelLimit
	Used  int64 // bytes or ns
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *LimitExceeded) Fields(c *wire.Codec) {
	c.Num(&m.Rank, wire.RankOrNone)
	c.Word((*string)(&m.Limit.Resource), "limit")
	c.Num64(&m.Limit.Max, wire.Range{Name: "limit", High: limits.Unlimited})
	c.Num64(&m.Used, wire.Range{Name: "use", High: limits.Unlimited})
}

func init() {
	wire.Register[SampledUsage](80, wire.Row{Sender: wire.Helper, Phase: wire.Running, MaxBody: 2 << 20, Example: func(rank int) wire.Message {
		used := job.UsageSample{CPU: 1, Mem: 1, VMem: 1}
		return &SampledUsage{used, []job.RankUsageSample{{Rank: rank, UsageSample: used}}}
	}})
	wire.Register[LimitExceeded](81, wire.Row{Sender: wire.Helper, Phase: wire.Running, MaxBody: 512, Example: func(rank int) wire.Message {
		return &LimitExceeded{Rank: rank, Limit: job.KernelLimit{Resource: limits.RankMem, Max: 1}, Used: 2}
	}})
	node.Admit(checkSampled)
	node.AdmitIf(checkExceeded)
}

// validationState holds the state that is needed to check the messages of one connection.
type validationState struct {
	samples  node.RateLimit
	exceeded int // LimitExceeded messages received
}

// maxSampleRate is the maximum number of samples per second that are accepted from a node.
const maxSampleRate = 4

// checkSampled checks a usage sample. The sample may name each started rank once. Samples may arrive only as often as
// they were requested (rule RM-51). The returned message is nil if mpiexec must ignore the sample.
func checkSampled(v *node.Validator, m *SampledUsage) (wire.Message, error) {
	if err := v.CheckStarted(m); err != nil {
		return nil, err
	}
	if _, wanted := node.SettingOf[*Sampling](v); !wanted {
		return nil, node.ErrNotAsked
	}
	seen := make(map[int]bool, len(m.Ranks))
	for _, r := range m.Ranks {
		s := v.FindRank(r.Rank)
		switch {
		case s == nil:
			return nil, node.NotOurRank(r.Rank)
		case s.IsPlanned():
			return nil, node.TooEarly(m)
		case seen[r.Rank]:
			return nil, node.InvalidValue(m, "rank", fmt.Sprint(r.Rank, " twice"))
		}
		seen[r.Rank] = true
	}
	return v.LimitRate(&node.StateOf[validationState](v).samples, maxSampleRate, m), nil
}

// checkExceeded checks a node's report that a limit was exceeded. The limit must be one that a helper can
// measure, and the rank must run on the node.
func checkExceeded(v *node.Validator, m *LimitExceeded) error {
	if err := v.CountEnd(m, &node.StateOf[validationState](v).exceeded); err != nil {
		return err
	}
	resource, perRank := m.Limit.Resource, m.Limit.Resource == limits.RankMem
	switch s := v.FindRank(m.Rank); {
	case !resource.IsHostLimit() || resource.IsKernelLimit():
		return node.InvalidValue(m, "limit", string(resource))
	case perRank && m.Rank == -1: // processes of no rank
	case perRank && s == nil:
		return node.NotOurRank(m.Rank)
	case perRank && s.IsPlanned():
		return node.TooEarly(m)
	case !perRank && m.Rank != -1:
		return node.InvalidValue(m, "rank", fmt.Sprint(m.Rank))
	case m.Used <= m.Limit.Max:
		return node.InvalidValue(m, "use", fmt.Sprint(m.Used))
	}
	return nil
}
