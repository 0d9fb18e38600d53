/*
Package stack unwinds the stacks of other processes and finds the names of the functions on them. It reads registers,
memory and ELF files that the caller provides. It does not use ptrace, and knows nothing about processes.

	Registers, Memory, Mappings --Unwind--> addresses --Symbolize--> Frames

	unwind.go    from frame to frame: by CFI, else by frame pointers, else by return addresses on the stack
	cfi.go       finds and parses call frame information (.eh_frame_hdr, .eh_frame, .debug_frame)
	rules.go     executes call frame instructions; expr.go evaluates DWARF expressions
	image.go     reads an ELF file, with limits on its sizes
	symbols.go   names of functions, from all symbol tables of a file
	lines.go     files, lines and inlined functions, from DWARF; debug.go checks the DWARF sections first

The observed program and its files may be hostile. Therefore each size, count and depth has a limit, and each loop
ends.

The formats are those of the System V ABI (gABI 4.1), DWARF 5 section 6.4, and the Linux Standard Base Core
Specification 5.0, section 10.6 (.eh_frame, .eh_frame_hdr).
*/
package stack

// These constants limit how much of a program and its files is read.
const (
	MaxFrames  = 256  // of one stack
	MaxThreads = 1000 // of one process

	maxReads        = 20_000    // reads of memory for one stack
	maxEntryBytes   = 64 << 10  // one CIE or FDE
	maxFrameSection = 64 << 20  // .eh_frame or .debug_frame that is read as a whole
	maxFDEs         = 1 << 20   // in an index of such a section
	maxSymbolBytes  = 512 << 20 // one symbol table
	maxLookups      = 1 << 18   // symbols of a table that are compared with a wanted name
	maxNameBytes    = 1 << 10   // one name of a function or file
	maxDebugData    = 64 << 20  // .gnu_debugdata after decompression
	maxDWARF        = 256 << 20 // all sections of DWARF together, after decompression
	maxUnits        = 1 << 17   // compile units of a file
	maxSections     = 4096
)

// TracedNote is the end of the note about a process whose stacks cannot be read because another process traces it.
const TracedNote = "traces it already"
