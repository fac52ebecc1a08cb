// Starts swagger-ui, which comes from the npm package swagger-ui-dist 5.35.0 (Apache-2.0, see LICENSE).
window.ui = SwaggerUIBundle({
  url: "/api/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
});
