package cli

import (
	"fmt"
	"slices"
	"strings"

	"remshell/fault"
	"remshell/gpu"
	"remshell/job"
)

// entryGPUs refuses, as devices does, an entry of a host file that says which GPUs its ranks
// see.
func entryGPUs(req job.Request) error {
	if !slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.GPUs != 0 }) {
		return nil
	}
	for _, n := range req.Nodes {
		for _, assignment := range n.Env {
			if name, _, _ := strings.Cut(assignment, "="); slices.Contains(gpu.Variables, name) {
				return &fault.Error{Text: fmt.Sprintf("-gpus-per-proc contradicts env=%s of host %s (%s)", name, n.Name, n.Origin), Remedy: "keep one"}
			}
		}
	}
	return nil
}
