package usage

import (
	"fmt"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch/node/nodetest"
	"remshell/limits"
	"remshell/wire"
	"remshell/wire/wiretest"
)

// The frames of the messages do not change.
func TestFrames(t *testing.T) {
	sample := func(cpu time.Duration, mem, vmem int64) job.UsageSample {
		return job.UsageSample{CPU: cpu, Mem: mem, VMem: vmem}
	}
	wiretest.CheckBytes(t, &SampledUsage{Host: sample(1, 1, 1), Ranks: []job.RankUsageSample{{Rank: 1, UsageSample: sample(1, 2, 1)}, {Rank: 2, UsageSample: sample(2, 2, 1)}, {Rank: 2, UsageSample: sample(1, 1, 1)}}},
		"501002020206020204020404040204020202")
	wiretest.CheckBytes(t, &LimitExceeded{Rank: 2, Limit: job.KernelLimit{Resource: "é\n\x00a", Max: 1}, Used: 2}, "5109040ac3a90a00610204")
}

// Each limit of TRUST-7 is accepted, and one more is refused.
func TestBounds(t *testing.T) {
	const maxMemory, maxTime = 1 << 60, 1 << 61
	host := func(s job.UsageSample) wire.Message { return &SampledUsage{Host: s} }
	rank := func(number int, s job.UsageSample) wire.Message {
		return &SampledUsage{Ranks: []job.RankUsageSample{{Rank: number, UsageSample: s}}}
	}
	limit := func(rank int, most, used int64) wire.Message {
		return &LimitExceeded{Rank: rank, Limit: job.KernelLimit{Resource: limits.HostMem, Max: most}, Used: used}
	}
	for _, test := range []struct {
		m    wire.Message
		want string // part of the violation; empty: it is valid
	}{
		{host(job.UsageSample{CPU: maxTime, Mem: maxMemory, VMem: maxMemory}), ""},
		{host(job.UsageSample{Mem: maxMemory + 1}), "bytes "}, {host(job.UsageSample{VMem: -1}), "bytes "},
		{host(job.UsageSample{CPU: -1}), "time "}, {host(job.UsageSample{CPU: maxTime + 1}), "time "},
		{rank(0, job.UsageSample{Mem: -1}), "bytes "}, {rank(-1, job.UsageSample{}), "rank -1"},
		{&SampledUsage{Ranks: make([]job.RankUsageSample, wire.MaxOnNode)}, ""}, {&SampledUsage{Ranks: make([]job.RankUsageSample, wire.MaxOnNode+1)}, "65537 ranks"},
		{limit(-1, limits.Unlimited, limits.Unlimited), ""}, {limit(-2, 1, 1), "rank -2"},
		{limit(0, limits.Unlimited+1, 1), "limit "}, {limit(0, -1, 1), "limit -1"}, {limit(0, 1, limits.Unlimited+1), "use "}, {limit(0, 1, -1), "use -1"},
	} {
		_, err, _ := wiretest.Receive(wire.Encode(test.m), wire.Launcher)
		if test.want == "" && err != nil || test.want != "" && !wiretest.IsInvalidValue(err, test.want) {
			t.Errorf("%.200v: %v, want %q", test.m, err, test.want)
		}
	}
}

// The rows of TRUST-4.
func TestStages(t *testing.T) {
	//               connected greeted asked prepared running ending over left
	const stages = "early early early early ok ok ok dropped"
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "SampledUsage", Stages: stages, Again: "ok", Foreign: "foreign"})
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "LimitExceeded", Stages: stages, Again: "twice", Foreign: "foreign"})
}

// exceeding returns the report that a rank, or -1, has used so much of a resource whose limit is 1.
func exceeding(what limits.Resource, rank int, used int64) wire.Message {
	return &LimitExceeded{Rank: rank, Limit: job.KernelLimit{Resource: what, Max: 1}, Used: used}
}

func samples(ranks ...int) wire.Message {
	m := new(SampledUsage)
	for _, rank := range ranks {
		m.Ranks = append(m.Ranks, job.RankUsageSample{Rank: rank})
	}
	return m
}

// A rank or a value that cannot be is a violation that names it.
func TestAdmitValues(t *testing.T) {
	for _, test := range []struct {
		m    wire.Message
		want string
	}{
		{samples(nodetest.Own, nodetest.Own), "the host sent a SampledUsage message with an impossible value: rank 4 twice"}, {samples(nodetest.Own, nodetest.Foreign), "the host sent a message about rank 0, which does not run there"},
		{exceeding(limits.HostMem, nodetest.Own, 2), "the host sent a LimitExceeded message with an impossible value: rank 4"}, {exceeding(limits.HostMem, -1, 1), "the host sent a LimitExceeded message with an impossible value: use 1"},
		{exceeding(limits.Mem, -1, 2), `the host sent a LimitExceeded message with an impossible value: limit mem`}, {exceeding(limits.NoFile, -1, 2), "the host sent a LimitExceeded message with an impossible value: limit nofile"},
		{exceeding(limits.RankMem, nodetest.Foreign, 2), "the host sent a message about rank 0, which does not run there"}, {exceeding(limits.RankMem, -1, 2), "ok"}, {exceeding(limits.RankMem, 99, 2), "the host sent a message about rank 99, which does not run there"},
		{exceeding("all is well", -1, 2), "the host sent a LimitExceeded message with an impossible value: limit all is well"}, {exceeding(limits.WallTime, -1, 2), "ok"},
		{samples(nodetest.Own, nodetest.Later), "ok"}, {samples(-1), "the host sent a message about rank -1, which does not run there"},
	} {
		v, _ := nodetest.NewStage(t, "running")
		_, err := v.CheckMessage(test.m)
		if got := fmt.Sprint(err); got != test.want && !(err == nil && test.want == "ok") {
			t.Errorf("%s %+v: %s, want %s", wire.NameOf(test.m), test.m, got, test.want)
		}
	}
}

// Samples may come only if they were requested. Those that come more often than samples are taken are dropped.
func TestAdmitSamples(t *testing.T) {
	v, clock := nodetest.NewStage(t, "running")
	got := ""
	for range 5 {
		got += nodetest.Judge(v, samples(nodetest.Own)) + " "
	}
	*clock = clock.Add(time.Second)
	if got += nodetest.Judge(v, samples(nodetest.Own)); got != "ok ok ok ok dropped ok" {
		t.Errorf("too many samples: %s", got)
	}
	v, _ = nodetest.NewStage(t, "running", func(m *wire.Prepare) { m.Settings = nil })
	if nodetest.Judge(v, samples(nodetest.Own)) != "unasked" {
		t.Error("samples were not requested")
	}
}
