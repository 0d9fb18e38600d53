package option

import (
	"remshell/usererr"
)

// removedOptions maps options that mpiexec had in an earlier version to advice about what to use instead. A key
// name=value is a removed value of an option. Entries are deleted after one release.
var removedOptions = map[string]string{
	"display-map=full":  "use --display map-devel",
	"launcher-fallback": "use --batch-option fallback=ssh",
	"mem-metric":        "leave out the option: mpiexec always measures the resident set size",
	"no-mpi-hints":      "to choose the network of Open MPI yourself, use for example --mca pml ucx",
	"rm-kill-delay":     "use --batch-option kill-delay=TIME",
	"rm-lsf-rankfile":   "use -hostfile $LSB_DJOB_RANKFILE",
	"rm-margin":         "use --batch-option margin=TIME",
	"rm-scope":          "use --batch-option scope=job; scope=step is the default",
	"preemptible":       "use --suspend and --resume-job, --checkpoint, or --migrate",
}

// RegisterRemoved records that a feature no longer has an option, or no longer has a value of one (name=value).
// replacement says what to use instead. RegisterRemoved must be called during program initialization.
func RegisterRemoved(option, replacement string) { removedOptions[option] = replacement }

// RemovedError returns the error for a removed option, or for a removed value (name=value). It returns nil
// for any other option.
func RemovedError(option string) error {
	instead, is := removedOptions[option]
	if !is {
		return nil
	}
	return &usererr.Error{Text: "--" + option + " was removed", Remedy: instead}
}

// removedVariableError returns the error for a variable that sets a removed option, as RemovedError does. If the
// value switches the option off, the hint says to remove the variable.
func removedVariableError(option, value string) error {
	err := RemovedError(option)
	if on, known := parseSwitch(value); err != nil && known && !on {
		return &usererr.Error{Text: err.Error(), Remedy: "unset it"}
	}
	return err
}
