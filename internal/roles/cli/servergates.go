package cli

// ServerGates are those of the API server's library in Kubernetes 1.36 and 1.37. Upstream shares its
// table of gates with that library, so it starts with them, and they change nothing there either
// (G-6).
var ServerGates = []string{
	"APIResponseCompression", "APIServerIdentity", "APIServerTracing", "APIServerWebhookAuthenticationToken",
	"APIServingWithRoutine", "AggregatedDiscoveryRemoveBetaType", "AllowParsingUserUIDFromCertAuth",
	"AllowUnsafeMalformedObjectDeletion", "AnonymousAuthConfigurableEndpoints", "AuthorizeWithSelectors",
	"BtreeWatchCache", "CBORServingAndStorage", "ConcurrentWatchObjectDecode", "ConsistentListFromCache",
	"ConsistentListFromCacheSkipTimeoutFallback", "ConstrainedImpersonation", "CoordinatedLeaderElection",
	"DeclarativeValidation", "DeclarativeValidationBeta", "DeclarativeValidationTakeover",
	"DetectCacheInconsistency", "EtcdRangeStream", "ExcludeAdmissionWebhookVirtualResources", "KMSv1",
	"ListFromCacheSnapshot", "ManifestBasedAdmissionControlConfig", "MutatingAdmissionPolicy", "OpenAPIEnums",
	"RemoteRequestHeaderUID", "ResilientWatchCacheInitialization", "RetryGenerateName", "SeparateCacheWatchRPC",
	"ShardedListAndWatch", "SizeBasedListCostEstimate", "StorageVersionAPI", "StorageVersionHash",
	"StreamingCollectionEncodingToJSON", "StreamingCollectionEncodingToProtobuf",
	"StructuredAuthenticationConfiguration", "StructuredAuthenticationConfigurationEgressSelector",
	"StructuredAuthenticationConfigurationJWKSMetrics", "TokenRequestServiceAccountUIDValidation",
	"UnauthenticatedHTTP2DOSMitigation", "UnknownVersionInteroperabilityProxy",
	"WatchCacheInitializationPostStartHook", "WatchList", "WatchListCompression", "WebhookRoundTripLoadBalancing",
}
