//go:build !linux

package cli

import "remshell/job"

// softLimits are not known here: their numbers are the kernel's own.
func softLimits() []job.SoftLimit { return nil }
