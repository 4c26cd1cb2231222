package cli

// LibraryGates are the gates of k8s.io/apiserver and k8s.io/component-base, of Kubernetes 1.36 and 1.37.
// Upstream shares its table of gates with these libraries, so it starts with them (G-6). Those of the
// API server change nothing there either.
var LibraryGates = []string{
	"APIResponseCompression", "APIServerIdentity", "APIServerTracing", "APIServerWebhookAuthenticationToken",
	"APIServingWithRoutine", "AggregatedDiscoveryRemoveBetaType", "AllowParsingUserUIDFromCertAuth",
	"AllowUnsafeMalformedObjectDeletion", "AnonymousAuthConfigurableEndpoints", "AuthorizeWithSelectors",
	"BtreeWatchCache", "CBORServingAndStorage", "ComponentFlagz", "ComponentStatusz", "ConcurrentWatchObjectDecode",
	"ConsistentListFromCache", "ConsistentListFromCacheSkipTimeoutFallback", "ConstrainedImpersonation",
	"CoordinatedLeaderElection",
	"DeclarativeValidation", "DeclarativeValidationBeta", "DeclarativeValidationTakeover",
	"DetectCacheInconsistency", "EtcdRangeStream", "ExcludeAdmissionWebhookVirtualResources", "KMSv1",
	"ListFromCacheSnapshot", "ManifestBasedAdmissionControlConfig", "MutatingAdmissionPolicy", "NativeHistograms",
	"OpenAPIEnums", "RemoteRequestHeaderUID", "ResilientWatchCacheInitialization", "RetryGenerateName",
	"SeparateCacheWatchRPC",
	"ShardedListAndWatch", "SizeBasedListCostEstimate", "StorageVersionAPI", "StorageVersionHash",
	"StreamingCollectionEncodingToJSON", "StreamingCollectionEncodingToProtobuf",
	"StructuredAuthenticationConfiguration", "StructuredAuthenticationConfigurationEgressSelector",
	"StructuredAuthenticationConfigurationJWKSMetrics", "TokenRequestServiceAccountUIDValidation",
	"UnauthenticatedHTTP2DOSMitigation", "UnknownVersionInteroperabilityProxy",
	"WatchCacheInitializationPostStartHook", "WatchList", "WatchListCompression", "WebhookRoundTripLoadBalancing",
}
