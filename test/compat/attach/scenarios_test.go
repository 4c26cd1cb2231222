package attach

// scenario is a sequence of steps of [play.take].
type scenario struct {
	text    string
	differs string // why ours differs; empty if it must not
}

// scenarios are played on both sides. Row numbers are those of docs/spec/volume-controllers.md.
var scenarios = build()

// twice is a race of upstream's: two attaches of a volume at once.
const twice = "upstream puts its finalizer twice on a volume that two nodes attach at once, or publishes it twice (AT-A18)"

// early is upstream's second call, which it makes at once on its own write (AT-H16).
const early = "upstream calls the driver twice at once, so that its controller does not see the first error; ours emits " +
	"the event, tries again after the delay, and clears the error"

// build combines the start of each kind of volume with the steps on it.
func build() (all []scenario) {
	add := func(text, differs string) { all = append(all, scenario{text, differs}) }
	for _, kind := range []string{"RWO", "RWX", "ROX", "RWOP", "RWO,RWX", "RWO block", "RWO ro", "RWO context", "ROX ro", "RWX block"} {
		begin := "node a; node b; vol x " + kind + "; pod p a x; listed a x; event p SuccessfulAttachVolume; "
		add(begin, "")
		add(begin+"rm p; gone x a; unlisted a x", "")
		add(begin+"use a x; rm p; pause; listed a x; free a x; gone x a", "")
		add(begin+"rm p; gone x a; pod q b x; listed b x; event q SuccessfulAttachVolume", "")
	}
	for _, mode := range []string{"RWO", "RWX", "RWOP"} {
		begin := "node a; node b; vol x " + mode + "; pod p a x; listed a x; event p SuccessfulAttachVolume; "
		add(begin+"succeed p; gone x a", "")
		add(begin+"use a x; terminate p; pause; listed a x", "")
		add(begin+"pod q a x; rm p; pause; listed a x", "")
	}
	begin := "node a; node b; vol x RWO; pod p a x; listed a x; event p SuccessfulAttachVolume; "
	for _, s := range []scenario{
		{begin + "use a x; pod q b x; event q FailedAttachVolume; rm p; free a x; listed b x", ""},
		{begin + "pod q b x; event q FailedAttachVolume", ""},
		{begin + "use a x; down a; rm p; taint a; gone x a", ""},
		{begin + "use a x; down a; rm p; pause; listed a x", ""},
		{begin + "rmva x a; gone x a; pause", "the VolumeAttachment is made again at once, and not after a minute"},
		{"node a; vol x RWX; pod p a x; pod q a x; listed a x; rm p; pause; listed a x; rm q; gone x a", ""},
		{"node a; node b; vol x RWX; pod p a x; pod q b x; listed a x; listed b x; rm p; gone x a; pause", twice},
		{"node a; node b; vol x ROX; pod p a x; pod q b x; listed a x; listed b x; rm p; rm q; gone x a; gone x b", twice},
		{"node a unmanaged; vol x RWO; pod p a x; pause", ""},
		{"node a; vol x RWO unbound; pod p a x; pause; bind x; listed a x; event p SuccessfulAttachVolume", ""},
		{
			"node a nodriver; vol x RWO; pod p a x; pause; register a; listed a x; event p SuccessfulAttachVolume",
			"the attacher waits for the driver on the node, and reports no error meanwhile",
		},
		{"node a; vol x RWO; pod p a x; vol y RWO; pod q a y; listed a x; listed a y; rm p; gone x a; pause", ""},
		{
			"node a; vol x RWO; fail x INTERNAL 1; pod p a x; event p FailedAttachVolume; listed a x; event p SuccessfulAttachVolume",
			early,
		},
		{"node a; vol x RWO; fail x RESOURCE_EXHAUSTED 1; pod p a x; listed a x; event p SuccessfulAttachVolume", early},
		{"node a; vol x RWO; pod p a x; listed a x; event p SuccessfulAttachVolume; fail x INTERNAL 1; rm p; gone x a", ""},
		{"node a; vol x RWO; pod p a x; listed a x; event p SuccessfulAttachVolume; lose x a; published x a; pause", ""},
		{"node a; vol x RWO; pod p a x; listed a x; event p SuccessfulAttachVolume; lose x a; rm p; gone x a; pause", ""},
		{"node a; vol x RWO in-tree; pod p a x; listed a x; event p SuccessfulAttachVolume; rm p; gone x a", ""},
		{"node a; node b; inline p a x; listed a x; event p SuccessfulAttachVolume; rm p; gone x a; inline q b x; listed b x; event q SuccessfulAttachVolume", ""},
		{"node a; node b; inline p a x; listed a x; event p SuccessfulAttachVolume; inline q b x; event q FailedAttachVolume", ""},
		{"node a; vol x RWO; pod p a x; listed a x; rmpv x; pause; rm p; gone x a", ""},
	} {
		add(s.text, s.differs)
	}
	return all
}
