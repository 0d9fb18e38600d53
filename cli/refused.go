package cli

import (
	"fmt"
	"strings"
)

// A refusal is our word for an option of another launcher that we do not have
// (CLI-15, cli.md 3). Nothing of this table is silently swallowed.
type refusal struct {
	names  string // without dashes, between blanks
	values int    // words that follow it; -1: differs between launchers
	answer string
}

// refusals is sorted as the table in cli.md. The answers name only options that
// there are; a test sees to that.
var refusals = []refusal{
	{"mca gmca prtemca pmixmca", 2, ""}, // see mcaAnswer
	{"tune am", 1, "is an option of another MPI for library parameters; set them with -genv NAME VALUE"},
	{"prefix", 1, "is Open MPI's option for its installation; here nothing depends on one; for libraries use -genv LD_LIBRARY_PATH PATH"},
	{"noprefix enable-prefix", 0, "is Open MPI's option for its installation; here nothing depends on one"},
	{"c", 1, "means ranks in one launcher and CPUs per task in another; for ranks use -n"},
	{"preload-binary bcast", 0, "copies the program in other launchers; here copy it to the hosts first"},
	{"preload-files", 1, "copies files in other launchers; here copy them to the hosts first"},
	{"w", -1, "means something else in each launcher; for hosts use -host"},
	{"o", -1, "means something else in each launcher; for more ranks than slots use --overbook, for files -outfile-pattern"},
	{"i", -1, "means something else in each launcher; for standard input use -stdin"},
	{"p d", -1, "means something else in each launcher; for the working directory use -wdir"},
	{"t", -1, "means something else in each launcher; for time limits use -timeout or --connect-timeout"},
	{"e", -1, "means something else in each launcher; for standard error to files use -errfile-pattern"},
	{"m b", -1, "means something else in each launcher; for equal lines once use --collapse"},
	{"r y X", -1, "means something else in each launcher; use the long name of what you want"},
	{"ckpoint ckpoint-interval ckpoint-prefix ckpoint-num ckpointlib ckpoint-preserve restart", -1, "is Hydra's option for checkpoints, which it has dropped too"},
	{"gdb tv gtool xterm valgrind", -1, "starts a tool in other launchers; here write the tool as the program: mpiexec -n 4 valgrind ./a.out, or -n 1 gdb ./a : -n 3 ./a"},
	{"dvm add-host activate hnp ompi-server", -1, "is Open MPI's option for its daemons; there are no persistent daemons here"},
	{"topolib demux pmi-connect branch-count", 1, "is an internal knob of another launcher; leave it out"},
	{"pmi-aggregate", 0, "is an internal knob of another launcher; leave it out"},
	{"trace aps mps", 0, "is Intel MPI's option for its tools; here set LD_PRELOAD or the I_MPI variables with -genv"},
	{"channel localroot phrase smpdfile", -1, "is an option of an old MPICH or of MS-MPI and has no meaning here; leave it out"},
	{"noprompt", 0, "is an option of an old MPICH and has no meaning here; leave it out"},
}

// mcaWords is what the launcher's own MCA parameters are called here.
var mcaWords = map[string]string{
	"plm_rsh_agent": "-launcher-exec COMMAND", "plm_ssh_agent": "-launcher-exec COMMAND",
	"plm_rsh_args": "-launcher-args WORDS", "plm_ssh_args": "-launcher-args WORDS",
	"plm_rsh_num_concurrent": "--fanout N", "plm_ssh_num_concurrent": "--fanout N",
	"plm_rsh_no_tree_spawn": "nothing, as hosts are always reached directly", "plm_ssh_no_tree_spawn": "nothing, as hosts are always reached directly",
	"rmaps_base_oversubscribe": "--oversubscribe", "orte_abort_on_non_zero_status": "-K0 or -K1",
}

// refused finds our word for an option, given by its normalized name.
func refused(name string) (refusal, bool) {
	for _, r := range refusals {
		for known := range strings.FieldsSeq(r.names) {
			if known == name {
				return r, true
			}
		}
	}
	return refusal{}, false
}

// mcaAnswer is our word for "-mca KEY VALUE".
func mcaAnswer(key, value string) string {
	if word, ok := mcaWords[key]; ok {
		return fmt.Sprintf("%s is Open MPI's parameter for its launcher; here: %s", key, word)
	}
	return fmt.Sprintf("is Open MPI's option for its parameters; they are environment variables: -genv OMPI_MCA_%s %s", key, quote(value))
}

// quote writes a word so that a shell reads it as one.
func quote(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,@%+^-") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
