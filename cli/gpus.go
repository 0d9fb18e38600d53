package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/gpu"
	"remshell/job"
)

// A GPUCount is a number of GPUs as job.Share has it: 0 is not given.
type GPUCount int

// UnmarshalText reads a number that has been checked.
func (c *GPUCount) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if *c = GPUCount(n); n == 0 {
		*c = job.NoGPUs
	}
	return err
}

func (c GPUCount) String() string { return strconv.Itoa(max(0, int(c))) }

// entryGPUs refuses, as devices does, an entry of a host file that says which GPUs its ranks
// see.
func entryGPUs(req job.Request) error {
	if !slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.GPUs != 0 }) {
		return nil
	}
	for _, n := range req.Nodes {
		for _, assignment := range n.Env {
			if name, _, _ := strings.Cut(assignment, "="); slices.Contains(gpu.Variables, name) {
				return &UsageError{fmt.Sprintf("-gpus-per-proc contradicts env=%s of host %s (%s)", name, n.Name, n.Origin), "keep one"}
			}
		}
	}
	return nil
}

// devices refuses lines that say twice which GPUs ranks see: the plan's choice would hide the
// user's, or the other way round. What is merely in the environment is taken for what all
// ranks may use, or belongs to another host.
func (s *settler) devices() {
	for _, section := range s.line.Sections {
		option, given := section.Origin("gpus-per-proc")
		if !given {
			continue
		}
		for _, said := range []struct {
			option string
			vars   []EnvVar
		}{{"-genv", s.line.Job.GEnv}, {"--export", s.line.Job.Export.Vars}, {"-env", section.Env}, {"-x", section.X}} {
			for _, v := range said.vars {
				if slices.Contains(gpu.Variables, v.Name) {
					s.clash(option.String(), said.option+" "+v.Name)
				}
			}
		}
	}
}
