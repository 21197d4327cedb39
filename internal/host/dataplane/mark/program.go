// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark/answers"
)

// constants are the variables of marking/mark.bpf.c, as they lie in .rodata. Those of
// marking/classify.bpf.c begin with the same two, and so did those of all versions.
type constants struct {
	Keep  uint32
	Value uint32
	Seal  uint32
}

// constantsMap is where both have them.
const constantsMap = ".rodata"

// programName is the function in marking/mark.bpf.c, and by it and those of
// marking/classify.bpf.c List knows its own.
const programName = markProgWeirMarkPort

// placeSize is how large the constants of each program are, by its name.
var placeSize = map[string]uintptr{
	programName:               unsafe.Sizeof(constants{}),
	classifyProgWeirRulesPort: unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesLink: unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesLong: unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesSegm: unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesSeal: unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesNote: unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesIfb:  unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesCgrp: unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesSock: unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesIn:   unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesZone: unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesArea: unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesTake: unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesGate: unsafe.Sizeof(classifyWeirPlace{}),
	classifyProgWeirRulesBack: unsafe.Sizeof(classifyWeirPlace{}),
}

// rulesMap is the section of marking/classify.bpf.c with the rules.
const rulesMap = ".rodata.rules"

// readers are the programs that note, or read, for whom the kernel answers.
var readers = []string{classifyProgWeirRulesLink, classifyProgWeirRulesLong, classifyProgWeirRulesZone, classifyProgWeirRulesArea, classifyProgWeirRulesNote}

// load puts the program into the kernel, once per place: with the constants in it
// there is nothing to look up when a packet comes. askers opens the map of package answers; nil =
// the program gets one of its own.
func (p program) load(attach ebpf.AttachType, askers func() (*ebpf.Map, error)) (*ebpf.Program, error) {
	if p.running != nil {
		if prog := p.running(); prog != nil {
			return prog, nil
		}
	}
	var shared ebpf.CollectionOptions
	if slices.Contains(readers, p.name) && askers != nil {
		shares, err := askers()
		if err != nil {
			return nil, err
		}
		defer shares.Close()
		shared.MapReplacements = map[string]*ebpf.Map{answers.Map: shares}
		p.place.SkAt, p.place.SendsAt = answers.Sends()
	}
	spec, err := p.spec()
	if err != nil {
		return nil, err
	}
	spec.Programs[p.name].AttachType = attach
	// To load the whole collection would map the constants into memory, which holds them
	// in the kernel until the garbage collector comes by, when the program is long gone.
	spec.Programs["wanted"] = spec.Programs[p.name]
	var loaded struct {
		Program *ebpf.Program `ebpf:"wanted"`
	}
	err = spec.LoadAndAssign(&loaded, &shared)
	if errors.Is(err, ebpf.ErrNotSupported) {
		return nil, fmt.Errorf("load the marking program: %w: %w", dataplane.ErrNoSupport, err)
	}
	if err != nil {
		return nil, device.Explain("load the marking program", err)
	}
	return loaded.Program, nil
}

// spec is the object with this one program and what it needs.
func (p program) spec() (*ebpf.CollectionSpec, error) {
	if p.name == programName {
		spec, err := loadMark()
		if err != nil {
			return nil, err
		}
		if err := spec.Variables[markVarWeirMark].Set(constants{p.place.Keep, p.place.Value, p.place.Seal}); err != nil {
			return nil, fmt.Errorf("set the class of the marking program: %w", err)
		}
		return spec, nil
	}
	spec, err := loadClassify()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return name != p.name })
	delete(spec.Maps, ".rodata.names")
	delete(spec.Variables, classifyVarWeirNames)
	if err := spec.Variables[classifyVarWeirHere].Set(p.place); err != nil {
		return nil, fmt.Errorf("set the class of the marking program: %w", err)
	}
	if err := p.redirection(spec); err != nil {
		return nil, err
	}
	if len(p.rules) == 0 {
		cut(spec.Maps[rulesMap], make([]classifyWeirRule, 1))
	} else {
		cut(spec.Maps[rulesMap], p.rules)
	}
	delete(spec.Variables, classifyVarWeirRules) // as large as all of them
	if late := spec.Maps[classifyMapWeirLate]; len(p.late) > 0 {
		late.MaxEntries = uint32(len(p.late))
		for class, c := range p.late {
			late.Contents = append(late.Contents, ebpf.MapKV{Key: class, Value: c})
		}
	}
	if owners := spec.Maps[classifyMapWeirOwners]; len(p.owner) > 0 {
		owners.MaxEntries = uint32(len(p.owner))
		for _, o := range p.owner {
			owners.Contents = append(owners.Contents, ebpf.MapKV{Key: o.ID, Value: o.Lane})
		}
	}
	if len(p.rules) == 0 {
		spec.Maps[classifyMapWeirFragments].MaxEntries = 1 // no rule reads it
	}
	return spec, nil
}

// redirection sets where packets are carried to, and whose.
func (p program) redirection(spec *ebpf.CollectionSpec) error {
	table := spec.Maps[".rodata.table"]
	delete(spec.Variables, classifyVarWeirTable)
	if !slices.Contains([]string{classifyProgWeirRulesIn, classifyProgWeirRulesTake, classifyProgWeirRulesZone, classifyProgWeirRulesArea}, p.name) {
		for _, section := range []string{".rodata.inward", ".rodata.area", ".rodata.table"} {
			delete(spec.Maps, section)
		}
		delete(spec.Variables, classifyVarWeirTo)
		delete(spec.Variables, classifyVarWeirWhose)
		return nil
	}
	if err := spec.Variables[classifyVarWeirTo].Set(p.in); err != nil {
		return fmt.Errorf("set where the marking program redirects to: %w", err)
	}
	if p.area == nil {
		return nil
	}
	whose := classifyWeirArea{Entries: uint32(len(p.area.Trie))}
	if p.area.Bare {
		whose.Bare = 1
	}
	cut(table, p.area.Trie)
	if err := spec.Variables[classifyVarWeirWhose].Set(whose); err != nil {
		return fmt.Errorf("set whose packets the marking program redirects: %w", err)
	}
	return nil
}

// cut makes a section hold just these elements. Neither its type nor a mapping into memory
// fits it then.
func cut[E any](section *ebpf.MapSpec, elements []E) {
	size := int(unsafe.Sizeof(elements[0])) * len(elements)
	section.ValueSize = uint32(size)
	section.Contents = []ebpf.MapKV{{Key: uint32(0), Value: unsafe.Slice((*byte)(unsafe.Pointer(&elements[0])), size)}}
	section.Key, section.Value = nil, nil
	section.Flags &^= bpfMmapable
}

// bpfMmapable is BPF_F_MMAPABLE of linux/bpf.h.
const bpfMmapable = 1 << 10

// errNotOurs says that a program is not Weir's marking program.
var errNotOurs = errors.New("not a marking program of Weir")

// mostIdentified bounds the number of remembered programs; one port has one.
const mostIdentified = 1 << 14

// identify says what a loaded program is. The constants of a program never change,
// and the kernel gives no id to another one soon, so it is read back once.
func (m *Marker) identify(id ebpf.ProgramID) (identity, error) {
	if who, ok := m.identified[id]; ok {
		return who, nil
	}
	who, err := identify(id)
	if err != nil {
		return who, err
	}
	if m.identified == nil || len(m.identified) >= mostIdentified {
		m.identified = map[ebpf.ProgramID]identity{}
	}
	m.identified[id] = who
	return who, nil
}

// identify reads back what a loaded program is.
func identify(id ebpf.ProgramID) (identity, error) {
	prog, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return identity{}, fmt.Errorf("open BPF program %d: %w", id, err)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		return identity{}, fmt.Errorf("inspect BPF program %d: %w", id, err)
	}
	if placeSize[info.Name] == 0 {
		return identity{}, errNotOurs
	}
	ids, _ := info.MapIDs()
	for _, mapID := range ids {
		who, err := identifyBy(mapID, info.Name)
		if !errors.Is(err, errNotOurs) {
			return who, err
		}
	}
	return identity{}, errNotOurs
}

// identifyBy reads the constants of the program; errNotOurs if the map is another. Where they
// are of another size, another version of Weir has made the program: its digest is 0, which
// none is that this one wants.
func identifyBy(id ebpf.MapID, name string) (identity, error) {
	rodata, err := ebpf.NewMapFromID(id)
	if err != nil {
		return identity{}, fmt.Errorf("open the constants of a marking program: %w", err)
	}
	defer rodata.Close()
	info, err := rodata.Info()
	if err != nil {
		return identity{}, fmt.Errorf("inspect the constants of a marking program: %w", err)
	}
	if info.Type != ebpf.Array || info.Name != constantsMap || uintptr(info.ValueSize) < unsafe.Offsetof(constants{}.Seal) {
		return identity{}, errNotOurs
	}
	value := make([]byte, info.ValueSize)
	if err := rodata.Lookup(uint32(0), value); err != nil {
		return identity{}, fmt.Errorf("read the constants of a marking program: %w", err)
	}
	who := identity{name: name, keep: binary.NativeEndian.Uint32(value), value: binary.NativeEndian.Uint32(value[4:])}
	switch {
	case uintptr(len(value)) != placeSize[name]:
	case name == programName:
		who.seal = binary.NativeEndian.Uint32(value[unsafe.Offsetof(constants{}.Seal):])
		who.digest = uint64(who.seal)
	default:
		who.seal = binary.NativeEndian.Uint32(value[unsafe.Offsetof(classifyWeirPlace{}.Seal):])
		who.digest = binary.NativeEndian.Uint64(value[unsafe.Offsetof(classifyWeirPlace{}.Digest):])
		who.levels = binary.NativeEndian.Uint32(value[unsafe.Offsetof(classifyWeirPlace{}.Levels):])
	}
	return who, nil
}

// class is the class number that the program writes. Where it writes a mark, that says it: so do
// the programs of former versions.
func (i identity) class() plan.ClassID {
	mask := plan.Mask(^i.keep)
	if mask == 0 {
		class, _ := plan.Carrier{}.Split(i.seal, 0)
		return class
	}
	class, _ := mask.Split(i.value)
	return class
}
